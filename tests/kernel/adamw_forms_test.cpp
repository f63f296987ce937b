// AdamW in all of its forms: what they have in common, what 8-bit moments are, and how bits that
// are missing are rounded.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/optimizer/moment_codes.h"
#include "support/adamw_forms.h"

namespace sotto::kernels {
namespace adamw_forms_test {

using test::AdamWForm;
using test::AdamWRange;
using test::all_adamw_forms;
using test::is_same;

constexpr AdamW::Coefficients at_step(int64_t step) {
  return {
      .rate = 1e-3,
      .step = step,
      .clip_norm = 3.0,
      .rounding = {.seed = 5, .purpose = Purpose::kRounding, .step = static_cast<uint64_t>(step)}};
}

// After some steps, so that the state is none of zeros. Blocks of very different sizes.
AdamWRange used_range(const AdamWForm& form, int64_t size) {
  at::manual_seed(3);
  AdamWRange range(form, size);
  range.weights.copy_(at::randn({size}));
  for (int64_t step = 1; step <= 3; ++step) {
    range.gradients.copy_(at::randn({size}) * at::exp(2 * at::randn({size})));
    range.update(at_step(step), range.square_sum());
  }
  return range;
}

class AdamWForms : public ::testing::TestWithParam<AdamWForm> {};

TEST_P(AdamWForms, DoNotDependOnTheNumberOfCores) {
  AdamWRange on_one = used_range(GetParam(), 100'003);
  AdamWRange on_two = on_one.clone();
  const at::Tensor sum = on_one.square_sum();
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  on_one.update(at_step(4), sum);
  at::set_num_threads(2);
  on_two.update(at_step(4), sum);
  at::set_num_threads(before);
  EXPECT_TRUE(is_same(on_one, on_two));
}

// A range may be updated in pieces of whole blocks; everything between them is unchanged.
TEST_P(AdamWForms, DoNotDependOnHowARangeIsSplit) {
  AdamWRange whole = used_range(GetParam(), 5'000);
  const AdamWRange before = whole.clone();
  AdamWRange pieces = whole.clone();
  const at::Tensor sum = whole.square_sum();
  whole.update(at_step(4), sum);
  for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 256}, {768, 1024}, {4864, 136}})
    pieces.piece(begin, count).update(at_step(4), sum);
  for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 256}, {768, 1024}, {4864, 136}})
    EXPECT_TRUE(is_same(pieces.piece(begin, count), whole.piece(begin, count))) << begin;
  for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{256, 512}, {1792, 3072}}) {
    EXPECT_TRUE(is_same(pieces.piece(begin, count), before.piece(begin, count))) << begin;
    EXPECT_FALSE(is_same(whole.piece(begin, count), before.piece(begin, count))) << begin;
  }
}

// A range that ends inside a block or a vector does not own what follows.
TEST_P(AdamWForms, ChangeOnlyTheirRange) {
  for (const int64_t size : {0, 1, 15, 16, 17, 255, 256, 257, 511}) {
    AdamWRange all = used_range(GetParam(), 768);
    const AdamWRange before = all.clone();
    all.piece(0, size).update(at_step(4), all.square_sum());
    for (auto [now, then] : {std::pair{&all.weights, &before.weights},
                             {&all.first, &before.first},
                             {&all.second, &before.second}}) {
      EXPECT_TRUE(at::equal(now->narrow(0, size, 768 - size), then->narrow(0, size, 768 - size)))
          << size;
    }
    if (size > 0) {
      EXPECT_FALSE(is_same(all.piece(0, size), before.piece(0, size))) << size;
    }
  }
}

// A value's step is the same whether its vector is whole or not.
TEST_P(AdamWForms, MayEndAnywhere) {
  AdamWRange whole = used_range(GetParam(), 512);
  whole.gradients.narrow(0, 256 + 13, 256 - 13).zero_();  // what is cut off holds no largest value
  const at::Tensor sum = whole.square_sum();
  AdamWRange part = whole.clone();
  part.piece(0, 256 + 13).update(at_step(4), sum);
  whole.update(at_step(4), sum);
  EXPECT_TRUE(
      at::equal(part.whole_weights().narrow(0, 0, 269), whole.whole_weights().narrow(0, 0, 269)));
}

TEST_P(AdamWForms, ChangeNothingIfTheNormIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    AdamWRange range = used_range(GetParam(), 700);
    range.gradients[300] = bad;
    const AdamWRange before = range.clone();
    range.update(at_step(4), range.square_sum());
    range.gradients[300] = 0.0;
    AdamWRange expected = before;
    expected.gradients = range.gradients;
    EXPECT_TRUE(is_same(range, expected));
  }
}

// The square of 1e25 overflows fp32. Its step has the usual size, and later steps still work.
TEST_P(AdamWForms, SurviveOverflowingSquares) {
  AdamWRange range(GetParam(), 300);
  range.weights.fill_(1.0);
  AdamW::Coefficients unclipped = at_step(1);
  unclipped.clip_norm = 0.0;
  for (int64_t step = 1; step <= 20; ++step) {
    range.gradients.fill_(step == 1 ? 1e25 : 0.0);
    unclipped.step = step;
    range.update(unclipped, range.square_sum());
    ASSERT_TRUE(((range.whole_weights() - 1.0).abs() < 0.1).all().item<bool>()) << step;
  }
  if (!GetParam().has_codes) {
    EXPECT_TRUE(at::isfinite(range.second).all().item<bool>());
  }
}

TEST_P(AdamWForms, AllocateNothing) {
  AdamWRange range = used_range(GetParam(), 5'000);
  const at::Tensor sum = range.square_sum();
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kHost, 1 << 20);
  const device::ArenaGuard guard(at::kCPU, arena);
  range.update(at_step(4), sum);
  EXPECT_EQ(arena->report().num_reservations, 0);
}

// Zero padding between parameters stays zero.
TEST_P(AdamWForms, KeepZerosWithoutGradients) {
  AdamWRange range(GetParam(), 600);
  for (int64_t step = 1; step <= 5; ++step) range.update(at_step(step), range.square_sum());
  EXPECT_TRUE(at::equal(range.whole_weights(), at::zeros({600})));
}

INSTANTIATE_TEST_SUITE_P(All, AdamWForms, ::testing::ValuesIn(all_adamw_forms()),
                         [](const auto& form) { return form.param.name(); });

// With the same gradients, bf16 with a 16-bit remainder equals an fp32 master weight, moments
// included.
TEST(AdamWSplit, MatchesFp32MasterBitExactly) {
  for (const bool has_codes : {false, true}) {
    for (const int64_t size : {1, 17, 256, 1'000, 20'001}) {
      AdamWRange master({.has_codes = has_codes}, size);
      AdamWRange split({.weights = at::kBFloat16, .remainder_bits = 16, .has_codes = has_codes},
                       size);
      split.weights.copy_(at::randn({size}) * 0.03);
      master.weights.copy_(split.weights);
      for (int64_t step = 1; step <= 50; ++step) {
        master.gradients.copy_(at::randn({size}));
        split.gradients = master.gradients;
        AdamW::Coefficients coefficients = at_step(step);
        coefficients.rate = 1e-5;
        const at::Tensor sum = master.square_sum();
        master.update(coefficients, sum);
        split.update(coefficients, sum);
      }
      EXPECT_TRUE(at::equal(split.whole_weights(), master.weights)) << size;
      EXPECT_TRUE(at::equal(split.first, master.first)) << size;
      EXPECT_TRUE(at::equal(split.second, master.second)) << size;
    }
  }
}

// --- stochastic rounding

// Averaged over many draws, the rounded step is the exact one, and only its two neighbours in the
// stored format occur.
TEST(AdamWRounding, IsUnbiased) {
  constexpr int64_t kSize = 256 * 400;
  for (const int bits : {8, 0}) {
    // With epsilon 0 the first step is the rate against the gradient's sign.
    AdamWRange range({.weights = at::kBFloat16, .remainder_bits = bits}, kSize);
    range.weights.fill_(1.0);
    range.gradients.fill_(-1.0);
    const double spacing = bits == 8 ? 0x1p-15 : 0x1p-7;  // of numbers from 1 on
    const double step = 0.3 * spacing;
    range.update({.rate = step, .epsilon = 0.0, .weight_decay = 0.0}, at::ones({1}, at::kDouble));
    const at::Tensor moved = range.whole_weights().to(at::kDouble) - 1.0;
    const at::Tensor is_up = moved > 0.5 * spacing;
    EXPECT_TRUE(((moved == 0.0) | (moved == spacing)).all().item<bool>()) << bits;
    // Of 102,400 draws the share has a deviation of 0.0014.
    EXPECT_NEAR(is_up.to(at::kDouble).mean().item<double>(), 0.3, 0.006) << bits;
  }
}

TEST(AdamWRounding, DrawsPerStepAndPosition) {
  const AdamWForm form{.weights = at::kBFloat16, .remainder_bits = 0};
  const auto rounded = [&](const RandomKey& key, int64_t first_value) {
    AdamWRange range(form, 2'048);
    range.weights.fill_(1.0);
    range.gradients.fill_(-1.0);
    range.first_value = first_value;
    range.update({.rate = 0x1p-8, .epsilon = 0.0, .weight_decay = 0.0, .rounding = key},
                 at::ones({1}, at::kDouble));
    return range.weights;
  };
  const RandomKey key{.seed = 1, .purpose = Purpose::kRounding, .step = 7, .layer = 2};
  const at::Tensor drawn = rounded(key, 0);
  EXPECT_TRUE(at::equal(drawn, rounded(key, 0)));
  EXPECT_TRUE(at::equal(drawn.narrow(0, 1'024, 1'024), rounded(key, 1'024).narrow(0, 0, 1'024)));
  for (const RandomKey& other :
       {RandomKey{.seed = 2, .purpose = key.purpose, .step = 7, .layer = 2},
        RandomKey{.seed = 1, .purpose = key.purpose, .step = 8, .layer = 2},
        RandomKey{.seed = 1, .purpose = key.purpose, .step = 7, .layer = 3}})
    EXPECT_FALSE(at::equal(drawn, rounded(other, 0)));
}

// Steps far too small for the format still add up.
TEST(AdamWRounding, LosesNoSmallSteps) {
  for (const int bits : {8, 0}) {
    constexpr int64_t kSize = 256 * 100;
    AdamWRange range({.weights = at::kBFloat16, .remainder_bits = bits}, kSize);
    range.weights.fill_(1.0);
    range.gradients.fill_(-1.0);
    constexpr int64_t kSteps = 200;
    for (int64_t step = 1; step <= kSteps; ++step) {
      AdamW::Coefficients coefficients = at_step(step);
      coefficients.rate = 1e-4;
      coefficients.weight_decay = 0.0;
      coefficients.clip_norm = 0.0;
      range.update(coefficients, at::ones({1}, at::kDouble));
    }
    // Steps of 1e-4 where the numbers lie 0.0078 apart: a value's own error has a deviation of
    // sqrt(200 * 1e-4 * 0.0078) = 0.0125, the mean of 25,600 one of 8e-5.
    const at::Tensor moved = range.whole_weights() - 1.0;
    EXPECT_NEAR(moved.mean().item<double>(), kSteps * 1e-4, 4e-4) << bits;
  }
}

TEST(ShortSplit, RoundsToNearest24BitsWithoutNoise) {
  const RandomStream stream({.seed = 1});
  for (uint64_t n = 0; n < 1'000'000; ++n) {
    const auto bits = static_cast<uint32_t>(stream.bits(n)) & 0xbfffffffu;  // below 2: no overflow
    const auto value = std::bit_cast<float>(bits);
    const auto back = std::bit_cast<uint32_t>(join_short(split_short(value, kNoNoise8)));
    ASSERT_EQ(back & 0xffu, 0u);
    ASSERT_LE(std::max(back, bits) - std::min(back, bits), 0x80u);
    // A number of 24 bits does not change, whatever the noise.
    const auto cut = std::bit_cast<float>(bits & ~0xffu);
    ASSERT_EQ(join_short(split_short(cut, static_cast<uint32_t>(n))), cut);
    const auto half = std::bit_cast<float>(bits & ~0xffffu);
    ASSERT_EQ(cut_float(half, static_cast<uint32_t>(n)), bits >> 16);
  }
}

TEST(ShortSplit, LeavesInfinityAndNanAlone) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const uint32_t noise : {0u, 0x80u, 0xffffu}) {
    EXPECT_EQ(join_short(split_short(infinity, noise)), infinity);
    EXPECT_EQ(join_short(split_short(-infinity, noise)), -infinity);
    EXPECT_EQ(cut_float(-infinity, noise), 0xff80);
    EXPECT_TRUE(std::isnan(join_short(split_short(std::nanf(""), noise))));
    EXPECT_EQ(cut_float(std::bit_cast<float>(0x7f800001u), noise), 0x7fc0);
  }
}

// --- moments of 8 bits

// Of two that are equally near the one nearer to 0.
int nearest(const MomentMap& map, float share) {
  int best = 0;
  for (int code = 1; code < 256; ++code) {
    const auto distance = [&](int c) {
      return std::abs(static_cast<double>(share) - static_cast<double>(map.values[c]));
    };
    const bool is_nearer = distance(code) < distance(best) ||
                           (distance(code) == distance(best) &&
                            std::abs(map.values[code]) < std::abs(map.values[best]));
    if (is_nearer) best = code;
  }
  return best;
}

// All numbers of a map, the limits between them, and what lies beside each.
std::vector<float> telling_shares(const MomentMap& map) {
  std::vector<float> shares = {0.0f, std::numeric_limits<float>::denorm_min(), 1e-30f, 0x1p-23f,
                               1.0f};
  const auto add_around = [&](float value) {
    float below = value, above = value;
    shares.push_back(value);
    for (int i = 0; i < 3; ++i) {
      shares.push_back(below = std::nextafter(below, -2.0f));
      shares.push_back(above = std::nextafter(above, 2.0f));
    }
  };
  for (size_t code = 0; code < 256; ++code) {
    add_around(map.values[code]);
    if (code > 0) add_around((map.values[code - 1] + map.values[code]) / 2.0f);
  }
  std::erase_if(shares, [](float share) { return std::abs(share) > 1.0f; });
  return shares;
}

TEST(MomentMap, SignedCodeIsNearest) {
  for (const float magnitude : telling_shares(kSignedMoments)) {
    for (const float share : {magnitude, -magnitude})
      ASSERT_EQ(signed_code(kSignedMoments.cells.data(), share), nearest(kSignedMoments, share))
          << share;
  }
}

// Except that values above 0 never get the code of 0.
TEST(MomentMap, UnsignedCodeIsNearest) {
  for (const float share : telling_shares(kUnsignedMoments)) {
    if (share < 0.0f) continue;
    const int expected = std::max(nearest(kUnsignedMoments, share), share > 0.0f ? 1 : 0);
    ASSERT_EQ(unsigned_code(kUnsignedMoments.cells.data(), share), expected) << share;
  }
}

TEST(MomentMap, IsSorted) {
  for (const MomentMap& map : {kSignedMoments, kUnsignedMoments}) {
    EXPECT_TRUE(std::ranges::is_sorted(map.values));
    EXPECT_EQ(std::ranges::adjacent_find(map.values), map.values.end());
    EXPECT_EQ(map.values[255], 1.0f);
  }
  EXPECT_EQ(kSignedMoments.values[kSignedZero], 0.0f);
  EXPECT_EQ(kUnsignedMoments.values[0], 0.0f);
}

// The functions for a block agree with those for one value, for all codes and for values between
// them.
TEST(MomentCodes, MatchTheMap) {
  std::vector<uint8_t> codes(kMomentBlock);
  std::vector<float> values(kMomentBlock);
  for (int64_t i = 0; i < kMomentBlock; ++i) codes[i] = static_cast<uint8_t>(i);
  detail::decode_signed(codes.data(), 0.3f, values.data());
  for (int64_t i = 0; i < kMomentBlock; ++i)
    EXPECT_EQ(values[i], kSignedMoments.values[i] * 0.3f) << i;
  detail::decode_unsigned(codes.data(), 0.3f, values.data());
  for (int64_t i = 0; i < kMomentBlock; ++i)
    EXPECT_EQ(values[i], kUnsignedMoments.values[i] * 0.3f) << i;

  std::vector<float> shares = telling_shares(kSignedMoments);
  for (const float share : telling_shares(kUnsignedMoments)) shares.push_back(share);
  for (uint32_t bits = 0; bits <= 0x3f800000u; bits += 40'009)
    shares.push_back(std::bit_cast<float>(bits));
  shares.resize((shares.size() + kMomentBlock - 1) / kMomentBlock * kMomentBlock, 0.0f);
  for (size_t block = 0; block < shares.size(); block += kMomentBlock) {
    detail::encode_signed(shares.data() + block, -1.0f, codes.data());
    for (size_t i = 0; i < kMomentBlock; ++i)
      ASSERT_EQ(codes[i], signed_code(kSignedMoments.cells.data(), -shares[block + i]))
          << -shares[block + i];
    detail::encode_signed(shares.data() + block, 1.0f, codes.data());
    for (size_t i = 0; i < kMomentBlock; ++i)
      ASSERT_EQ(codes[i], signed_code(kSignedMoments.cells.data(), shares[block + i]))
          << shares[block + i];
    for (size_t i = 0; i < kMomentBlock; ++i) values[i] = std::abs(shares[block + i]);
    detail::encode_unsigned(values.data(), 1.0f, codes.data());
    for (size_t i = 0; i < kMomentBlock; ++i)
      ASSERT_EQ(codes[i], unsigned_code(kUnsignedMoments.cells.data(), values[i])) << values[i];
  }
}

// A step from codes equals the step of fp32 moments from the decoded values; the new moments are
// stored as the nearest codes of each block.
TEST(AdamWCodes, AreDecodedUpdatedAndEncoded) {
  const int64_t size = 1'000;
  AdamWRange coded = used_range({.has_codes = true}, size);
  AdamWRange plain({}, size);
  plain.weights.copy_(coded.weights);
  plain.gradients.copy_(coded.gradients);
  for (int64_t i = 0; i < size; ++i) {
    const int64_t block = i / kMomentBlock;
    plain.first.data_ptr<float>()[i] = kSignedMoments.values[coded.first.data_ptr<uint8_t>()[i]] *
                                       coded.first_scales.data_ptr<float>()[block];
    plain.second.data_ptr<float>()[i] =
        kUnsignedMoments.values[coded.second.data_ptr<uint8_t>()[i]] *
        coded.second_scales.data_ptr<float>()[block];
  }
  const at::Tensor sum = coded.square_sum();
  coded.update(at_step(4), sum);
  plain.update(at_step(4), sum);
  EXPECT_TRUE(at::equal(coded.weights, plain.weights));
  for (int64_t i = 0; i < size; ++i) {
    const int64_t begin = i / kMomentBlock * kMomentBlock;
    const int64_t count = std::min(kMomentBlock, size - begin);
    const float first_scale = plain.first.narrow(0, begin, count).abs().max().item<float>();
    const float second_scale = plain.second.narrow(0, begin, count).max().item<float>();
    ASSERT_EQ(coded.first_scales.data_ptr<float>()[i / kMomentBlock], first_scale);
    ASSERT_EQ(coded.second_scales.data_ptr<float>()[i / kMomentBlock], second_scale);
    ASSERT_EQ(coded.first.data_ptr<uint8_t>()[i],
              nearest(kSignedMoments, plain.first.data_ptr<float>()[i] * (1.0f / first_scale)));
    const float share = plain.second.data_ptr<float>()[i] * (1.0f / second_scale);
    ASSERT_EQ(coded.second.data_ptr<uint8_t>()[i], std::max(1, nearest(kUnsignedMoments, share)));
  }
}

// A value whose gradients are small compared to its block takes steps of the usual size. A second
// moment rounded to 0 would make them many times larger.
TEST(AdamWCodes, SmallGradientsInABlockCauseNoLargeSteps) {
  AdamWRange range({.has_codes = true}, kMomentBlock);
  const at::Tensor sizes = at::ones({kMomentBlock});
  sizes[17] = 1e-4;  // squared far below the smallest number of the map
  const double rate = 1e-3;
  for (int64_t step = 1; step <= 30; ++step) {
    const at::Tensor before = range.weights.clone();
    range.gradients.copy_(sizes);
    range.update({.rate = rate, .beta2 = 0.999, .weight_decay = 0.0, .step = step},
                 at::ones({1}, at::kDouble));
    EXPECT_LE((range.weights - before).abs().max().item<double>(), 1.2 * rate) << step;
  }
}

TEST(AdamWCodes, AreZeroForAZeroBlock) {
  AdamWRange range({.has_codes = true}, 512);
  range.gradients.narrow(0, 0, 256).fill_(1e-30);  // squared it is below the smallest number
  range.update(at_step(1), range.square_sum());
  EXPECT_EQ(range.second_scales[0].item<float>(), 0.0f);
  EXPECT_EQ(range.first_scales[1].item<float>(), 0.0f);
  EXPECT_TRUE((range.first.narrow(0, 256, 256) == kSignedZero).all().item<bool>());
  EXPECT_TRUE((range.second == 0).all().item<bool>());
  EXPECT_TRUE(at::isfinite(range.weights).all().item<bool>());
}

// Over many steps the weights follow those with fp32 moments.
TEST(AdamWCodes, FollowFp32Moments) {
  at::manual_seed(11);
  const int64_t size = 4'096;
  AdamWRange plain({}, size);
  AdamWRange coded({.has_codes = true}, size);
  const at::Tensor mean = at::randn({size}) * 0.3;
  for (int64_t step = 1; step <= 200; ++step) {
    const at::Tensor gradients = mean + at::randn({size});
    for (AdamWRange* range : {&plain, &coded}) {
      range->gradients.copy_(gradients);
      range->update({.rate = 1e-3, .beta2 = 0.98, .weight_decay = 0.0, .step = step},
                    at::ones({1}, at::kDouble));
    }
  }
  const double distance = (plain.weights - coded.weights).norm().item<double>();
  EXPECT_LE(distance, 0.03 * plain.weights.norm().item<double>());
}

TEST(AdamWForm, RefusesInvalidForms) {
  AdamWRange range({.weights = at::kBFloat16, .remainder_bits = 8, .has_codes = true}, 512);
  const at::Tensor sum = at::ones({1}, at::kDouble);
  const auto expect_refused = [&](auto change) {
    AdamWRange other = range;
    change(other);
    EXPECT_THROW(other.update({}, sum), InternalError);
  };
  range.update({}, sum);
  expect_refused([](AdamWRange& r) { r.first_value = 128; });
  expect_refused([](AdamWRange& r) { r.first_scales = at::zeros({1}); });
  expect_refused([](AdamWRange& r) { r.first = at::zeros({512}); });
  expect_refused([](AdamWRange& r) { r.second = at::zeros({511}, at::kByte); });
  expect_refused([](AdamWRange& r) { r.weights = at::zeros({512}); });
  expect_refused([](AdamWRange& r) { r.weights = at::zeros({512}, at::kHalf); });
  expect_refused([](AdamWRange& r) { r.remainder = at::zeros({512}, at::kChar); });
  expect_refused([](AdamWRange& r) { r.gradients = at::zeros({512}, at::kHalf); });
  EXPECT_THROW(AdamW::update({.weights = range.weights,
                              .gradients = range.gradients,
                              .first_moment = range.first,
                              .second_moment = range.second,
                              .first_scales = &range.first_scales},
                             {}, sum),
               InternalError);
}

}  // namespace adamw_forms_test
}  // namespace sotto::kernels
