#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "sotto/kernels/optimizer/adamw.h"
#include "sotto/kernels/optimizer/adamw_factors.h"
#include "sotto/kernels/optimizer/moment_codes.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/dropout_bits.h"
#include "sotto/kernels/simd/simd.h"
#include "sotto/kernels/simd/split_float.h"

namespace sotto::kernels::detail {

namespace {

using simd::IntLanes;
using simd::Lanes;
using simd::UintLanes;

struct LaneMath {
  [[gnu::always_inline]] static Lanes within(const Lanes& lanes, float limit) {
    return simd::min(simd::max(lanes, -limit), limit);
  }
  [[gnu::always_inline]] static Lanes at_least(const Lanes& lanes, float least) {
    return simd::max(lanes, least);
  }
  [[gnu::always_inline]] static Lanes inverse(const Lanes& lanes) { return 1.0f / lanes; }
  // The compiler keeps the arrays of these two functions in registers.
  [[gnu::always_inline]] static Lanes square_root(const Lanes& lanes) {
    float values[simd::kLanes];
    simd::store(values, lanes, simd::Full{});
    for (float& value : values) value = std::sqrt(value);
    return simd::load(values, simd::Full{});
  }
  // a b + c, rounded once.
  [[gnu::always_inline]] static Lanes multiply_add(const Lanes& a, float b, const Lanes& c) {
    float factors[simd::kLanes];
    float sums[simd::kLanes];
    simd::store(factors, a, simd::Full{});
    simd::store(sums, c, simd::Full{});
    for (int i = 0; i < simd::kLanes; ++i) sums[i] = std::fma(factors[i], b, sums[i]);
    return simd::load(sums, simd::Full{});
  }
};

// Values that are prefetched: seven streams are too many for the hardware prefetcher; saves 17 %
// where memory is the limit.
constexpr int64_t kAhead = 256;

// --- formats of weights. `noise`: 16 random bits for each.

struct FloatWeights {
  static constexpr bool kHasNoise = false;

  float* values;

  [[gnu::always_inline]] void prefetch(int64_t at) const { simd::prefetch(values + at); }
  template <class Count>
  [[gnu::always_inline]] Lanes load(int64_t at, Count n) const {
    return simd::load(values + at, n);
  }
  template <class Count>
  [[gnu::always_inline]] void store(int64_t at, const Lanes& w, const uint16_t*, Count n) const {
    simd::store(values + at, w, n);
  }
};

// Adds noise to the bits that will be truncated; infinity and NaN get none.
[[gnu::always_inline]] inline UintLanes bits_with_noise(const Lanes& w, const UintLanes& noise) {
  const auto bits = w.bits_as<uint32_t>();
  const IntLanes is_finite = (bits & 0x7fffffffu).bits_as<int32_t>() < 0x7f800000;
  return bits + (noise & is_finite.bits_as<uint32_t>());
}

// Replaces a NaN by one that rounding does not turn into a number.
[[gnu::always_inline]] inline UintLanes without_loud_nan(const UintLanes& bits) {
  const IntLanes is_nan = (bits & 0x7fffffffu).bits_as<int32_t>() > 0x7f800000;
  return simd::select<uint32_t>(is_nan, 0x7fc00000u, bits);
}

// bf16 without a remainder.
struct CutWeights {
  static constexpr bool kHasNoise = true;

  c10::BFloat16* high;

  [[gnu::always_inline]] void prefetch(int64_t at) const { simd::prefetch(high + at); }
  template <class Count>
  [[gnu::always_inline]] Lanes load(int64_t at, Count n) const {
    return simd::load(high + at, n);
  }
  [[gnu::always_inline]] void store(int64_t at, const Lanes& w, const uint16_t* noise,
                                    simd::Full) const {
    const auto drawn = simd::load_unsigned(noise).bits_as<uint32_t>();
    simd::store_upper_halves(high + at, without_loud_nan(bits_with_noise(w, drawn)));
  }
  void store(int64_t at, const Lanes& w, const uint16_t* noise, int64_t count) const {
    float whole[simd::kLanes];
    simd::store(whole, w, simd::Full{});
    for (int64_t i = 0; i < count; ++i) high[at + i].x = cut_float(whole[i], noise[i]);
  }
};

// bf16 with 8 bits of remainder.
struct ShortSplitWeights {
  static constexpr bool kHasNoise = true;

  c10::BFloat16* high;
  uint8_t* low;

  [[gnu::always_inline]] void prefetch(int64_t at) const { simd::prefetch(high + at); }
  template <class Count>
  [[gnu::always_inline]] Lanes load(int64_t at, Count n) const {
    const auto upper = simd::load(high + at, n).template bits_as<uint32_t>();
    // Shifts to the left end, and back with the sign.
    const IntLanes lower = simd::load(low + at, n) << 24 >> 16;
    return (upper + lower.bits_as<uint32_t>()).template bits_as<float>();
  }
  [[gnu::always_inline]] void store(int64_t at, const Lanes& w, const uint16_t* noise,
                                    simd::Full n) const {
    const UintLanes drawn = simd::load_unsigned(noise).bits_as<uint32_t>() & 0xffu;
    const UintLanes bits = without_loud_nan(bits_with_noise(w, drawn));
    simd::store_upper_halves(high + at, bits + 0x8000u);
    simd::store(low + at, (bits >> 8).bits_as<int32_t>(), n);
  }
  void store(int64_t at, const Lanes& w, const uint16_t* noise, int64_t count) const {
    float whole[simd::kLanes];
    simd::store(whole, w, simd::Full{});
    for (int64_t i = 0; i < count; ++i) {
      const ShortSplitFloat split = split_short(whole[i], noise[i]);
      high[at + i].x = split.high;
      low[at + i] = split.low;
    }
  }
};

// bf16 with 16 bits of remainder.
struct SplitWeights {
  static constexpr bool kHasNoise = false;

  c10::BFloat16* high;
  int16_t* low;

  [[gnu::always_inline]] void prefetch(int64_t at) const {
    simd::prefetch(high + at);
    simd::prefetch(low + at);
  }
  [[gnu::always_inline]] Lanes load(int64_t at, simd::Full n) const {
    const auto upper = simd::load(high + at, n).bits_as<uint32_t>();
    const IntLanes lower = simd::load_upper_halves(low + at).bits_as<int32_t>() >> 16;
    return (upper + lower.bits_as<uint32_t>()).bits_as<float>();
  }
  Lanes load(int64_t at, int64_t count) const {
    float whole[simd::kLanes] = {};
    for (int64_t i = 0; i < count; ++i)
      whole[i] = join_float({.high = high[at + i].x, .low = low[at + i]});
    return simd::load(whole, simd::Full{});
  }
  [[gnu::always_inline]] void store(int64_t at, const Lanes& w, const uint16_t*, simd::Full) const {
    const UintLanes bits = without_loud_nan(w.bits_as<uint32_t>());
    simd::store_upper_halves(high + at, bits + 0x8000u);
    simd::store_upper_halves(low + at, bits << 16);
  }
  void store(int64_t at, const Lanes& w, const uint16_t*, int64_t count) const {
    float whole[simd::kLanes];
    simd::store(whole, w, simd::Full{});
    for (int64_t i = 0; i < count; ++i) {
      const SplitFloat split = split_float(whole[i]);
      high[at + i].x = split.high;
      low[at + i] = split.low;
    }
  }
};

// --- formats of moments, block by block: open, then read and write its values, then close

struct FloatMoments {
  float* first;
  float* second;
  int64_t at = 0;  // start of the block

  void open(int64_t block, int64_t) { at = block * kMomentBlock; }
  [[gnu::always_inline]] void prefetch(int64_t i) const {
    simd::prefetch(first + at + i);
    simd::prefetch(second + at + i);
  }
  template <class Count>
  [[gnu::always_inline]] Lanes read_first(int64_t i, Count n) const {
    return simd::load(first + at + i, n);
  }
  template <class Count>
  [[gnu::always_inline]] Lanes read_second(int64_t i, Count n) const {
    return simd::load(second + at + i, n);
  }
  template <class Count>
  [[gnu::always_inline]] void write(int64_t i, const Lanes& m, const Lanes& v, Count n) {
    simd::store(first + at + i, m, n);
    simd::store(second + at + i, v, n);
  }
  void close(int64_t) {}
};

// Decoded when the block is opened, and encoded when it is closed: in between they are treated as
// fp32.
struct CodedMoments {
  uint8_t* first;
  uint8_t* second;
  float* first_scales;
  float* second_scales;
  int64_t block = 0;
  Lanes first_largest = {};
  Lanes second_largest = {};
  float first_now[kMomentBlock] = {};
  float second_now[kMomentBlock] = {};

  [[gnu::always_inline]] void prefetch(int64_t) const {}  // four cache lines per block
  void open(int64_t number, int64_t count) {
    block = number;
    first_largest = second_largest = Lanes{};
    const auto whole = [&](const uint8_t* codes, uint8_t* padded) {
      codes += block * kMomentBlock;
      if (count == kMomentBlock) return codes;
      return static_cast<const uint8_t*>(std::memcpy(padded, codes, static_cast<size_t>(count)));
    };
    uint8_t padded[kMomentBlock] = {};
    decode_signed(whole(first, padded), first_scales[block], first_now);
    decode_unsigned(whole(second, padded), second_scales[block], second_now);
  }
  template <class Count>
  [[gnu::always_inline]] Lanes read_first(int64_t i, Count) const {
    return simd::load(first_now + i, simd::Full{});
  }
  template <class Count>
  [[gnu::always_inline]] Lanes read_second(int64_t i, Count) const {
    return simd::load(second_now + i, simd::Full{});
  }
  // Values past the end of a range are ignored.
  template <class Count>
  [[gnu::always_inline]] void write(int64_t i, const Lanes& m, const Lanes& v, Count n) {
    first_largest = simd::max(first_largest, simd::masked(simd::absolute(m), n));
    second_largest = simd::max(second_largest, simd::masked(v, n));
    simd::store(first_now + i, m, simd::Full{});
    simd::store(second_now + i, v, simd::Full{});
  }
  void close(int64_t count) {
    first_scales[block] = simd::max(first_largest);
    second_scales[block] = simd::max(second_largest);
    const float first_inverse = inverse_scale(first_scales[block]);
    const float second_inverse = inverse_scale(second_scales[block]);
    uint8_t* const first_codes = first + block * kMomentBlock;
    uint8_t* const second_codes = second + block * kMomentBlock;
    if (count == kMomentBlock) {
      encode_signed(first_now, first_inverse, first_codes);
      encode_unsigned(second_now, second_inverse, second_codes);
      return;
    }
    // Values past the end may be larger than the largest, for which there is no code.
    std::fill(first_now + count, std::end(first_now), 0.0f);
    std::fill(second_now + count, std::end(second_now), 0.0f);
    uint8_t padded[kMomentBlock];
    encode_signed(first_now, first_inverse, padded);
    std::memcpy(first_codes, padded, static_cast<size_t>(count));
    encode_unsigned(second_now, second_inverse, padded);
    std::memcpy(second_codes, padded, static_cast<size_t>(count));
  }
};

// --- the update

template <class Weights, class Gradient>
struct Operands {
  Weights weights;
  const Gradient* gradients;
  float scale;            // factor of gradients
  uint64_t first_number;  // of random bits: the position of the first value
};

template <class Weights, class Gradient, class Moments>
void update_block(const Operands<Weights, Gradient>& of, Moments& moments, const AdamWFactors& f,
                  int64_t first, int64_t count) {
  // The tail is read as a whole block.
  uint16_t noise[kMomentBlock + simd::kLanes];
  if constexpr (Weights::kHasNoise) {
    for (int64_t i = 0; i < count; i += kDropoutElementsAtOnce) {
      const uint64_t number = of.first_number + static_cast<uint64_t>(first + i);
      fill_dropout_bits(number / kDropoutBlock, 0, f.rounding, noise + i);
    }
  }
  simd::for_each_block(count, [&](int64_t i, auto n) {
    simd::prefetch(of.gradients + first + i + kAhead);
    of.weights.prefetch(first + i + kAhead);
    moments.prefetch(i + kAhead);
    const Lanes g = simd::load(of.gradients + first + i, n) * of.scale;
    Lanes m = moments.read_first(i, n);
    Lanes v = moments.read_second(i, n);
    Lanes w = of.weights.load(first + i, n);
    f.step<LaneMath>(g, m, v, w);
    of.weights.store(first + i, w, noise + i, n);
    moments.write(i, m, v, n);
  });
}

template <class Weights, class Gradient, class Moments>
void update_all(const Operands<Weights, Gradient>& of, const Moments& moments,
                const AdamWFactors& f, int64_t size) {
  parallel_rows(num_moment_blocks(size), kMomentBlock, [&](int64_t begin, int64_t end) {
    Moments own = moments;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kMomentBlock;
      const int64_t count = std::min(kMomentBlock, size - first);
      own.open(block, count);
      update_block(of, own, f, first, count);
      own.close(count);
    }
  });
}

template <class Body>
void with_weights(const AdamW::Range& range, Body body) {
  if (range.weights.scalar_type() == at::kFloat)
    return body(FloatWeights{.values = range.weights.mutable_data_ptr<float>()});
  auto* high = range.weights.mutable_data_ptr<c10::BFloat16>();
  if (range.remainder == nullptr) return body(CutWeights{.high = high});
  if (range.remainder->scalar_type() == at::kByte)
    return body(
        ShortSplitWeights{.high = high, .low = range.remainder->mutable_data_ptr<uint8_t>()});
  body(SplitWeights{.high = high, .low = range.remainder->mutable_data_ptr<int16_t>()});
}

template <class Body>
void with_gradients(const AdamW::Range& range, Body body) {
  if (range.gradients.scalar_type() == at::kFloat)
    return body(range.gradients.const_data_ptr<float>());
  body(range.gradients.const_data_ptr<c10::BFloat16>());
}

template <class Body>
void with_moments(const AdamW::Range& range, Body body) {
  if (range.first_scales == nullptr) {
    return body(FloatMoments{.first = range.first_moment.mutable_data_ptr<float>(),
                             .second = range.second_moment.mutable_data_ptr<float>()});
  }
  body(CodedMoments{.first = range.first_moment.mutable_data_ptr<uint8_t>(),
                    .second = range.second_moment.mutable_data_ptr<uint8_t>(),
                    .first_scales = range.first_scales->mutable_data_ptr<float>(),
                    .second_scales = range.second_scales->mutable_data_ptr<float>()});
}

}  // namespace

void adamw_cpu(const AdamW::Range& range, const AdamWFactors& factors, double square_sum) {
  const double scale = factors.scale_for(std::sqrt(square_sum));
  if (std::isnan(scale)) return;
  with_weights(range, [&](auto weights) {
    with_gradients(range, [&](const auto* gradients) {
      with_moments(range, [&](const auto& moments) {
        using Gradient = std::remove_cvref_t<decltype(*gradients)>;
        const Operands<decltype(weights), Gradient> operands{
            .weights = weights,
            .gradients = gradients,
            .scale = static_cast<float>(scale),
            .first_number = static_cast<uint64_t>(range.first_value)};
        update_all(operands, moments, factors, range.weights.numel());
      });
    });
  });
}

}  // namespace sotto::kernels::detail
