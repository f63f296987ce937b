// A memory feature must not change the numbers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/block_fixture.h"
#include "support/tolerance.h"

namespace sotto::nn {
namespace {

using test::BlockFixture;

struct Step {
  at::Tensor y;
  at::Tensor dx;
  std::vector<at::Tensor> gradients;
};

constexpr int64_t kWidth = 48;

TransformerBlockOptions blocks(bool norm_first) {
  return {.width = kWidth,
          .hidden = 100,
          .attention = {.num_heads = 4},
          .dropout = 0.2,
          .activation_dropout = 0.3,
          .norm_first = norm_first,
          .num_layers = 3};
}

// One step over utterances 7, 8, 9, ... of the given lengths, packed as `packs` says (utterances a
// pack).
Step run(BlockFixture& fixture, const std::vector<Tier>& tiers, const std::vector<int64_t>& lengths,
         const std::vector<size_t>& packs) {
  const at::ScalarType type = fixture.store.ranges().front().values.scalar_type();
  fixture.store.zero_gradients();
  std::vector<at::Tensor> ys, dxs;
  size_t next = 0;
  int64_t first = 0;
  int64_t total = 0;
  for (const int64_t length : lengths) total += length;
  const at::Tensor x = at::linspace(-2, 3, total * kWidth).sin().view({total, kWidth}).to(type);
  const at::Tensor dy = at::linspace(1, -4, total * kWidth).cos().view({total, kWidth}).to(type);
  for (const size_t count : packs) {
    std::vector<int64_t> pack;
    std::vector<UtteranceKey> keys;
    for (size_t i = 0; i < count; ++i, ++next) {
      pack.push_back(lengths[next]);
      keys.push_back({.utterance = 7 + next});
    }
    const kernels::Packing packing(pack, at::kCPU, keys);
    const Context context{.step = {.step = 3}, .packing = packing};
    device::HostMemory host(at::kCPU);
    HostTape on_host(host);
    Tape tape(tiers, &on_host);
    const int64_t frames = packing.num_frames();
    ys.push_back(fixture.stack.forward(x.narrow(0, first, frames).clone(), context, tape));
    dxs.push_back(fixture.stack.backward(dy.narrow(0, first, frames).clone(), context, tape));
    first += frames;
  }
  return {.y = at::cat(ys), .dx = at::cat(dxs), .gradients = test::gradients_of(fixture.store)};
}

void expect_same_bits(const Step& a, const Step& b, const std::string& what) {
  EXPECT_TRUE(at::equal(a.y, b.y)) << what;
  EXPECT_TRUE(at::equal(a.dx, b.dx)) << what;
  for (size_t i = 0; i < a.gradients.size(); ++i)
    EXPECT_TRUE(at::equal(a.gradients[i], b.gradients[i])) << what << ", parameter " << i;
}

TEST(Recompute, GivesTheSameBitsAtEveryTier) {
  for (const bool norm_first : {true, false}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      BlockFixture fixture(blocks(norm_first), type);
      const Step kept = run(fixture, {}, {40, 13, 90}, {3});
      for (const auto& [name, tier] : kTiers) {
        const Step step = run(fixture, test::tiers_of(3, tier), {40, 13, 90}, {3});
        expect_same_bits(step, kept, std::string(name) + " " + c10::toString(type));
      }
      const Step mixed = run(fixture, {Tier::kBlock, Tier::kNorms, Tier::kQkv}, {40, 13, 90}, {3});
      expect_same_bits(mixed, kept, "a tier for each layer");
    }
  }
}

// The budget decides how many utterances share a micro-batch; with dropout on, the result must not
// depend on it.
TEST(Split, GivesTheSameGradients) {
  BlockFixture fixture(blocks(/*norm_first=*/true));
  const Step whole = run(fixture, {}, {40, 13, 90, 1}, {4});
  for (const std::vector<size_t>& packs : {std::vector<size_t>{1, 1, 1, 1}, {2, 2}, {1, 3}}) {
    const Step split = run(fixture, {}, {40, 13, 90, 1}, packs);
    EXPECT_LT(test::relative_error(split.y, whole.y), 1e-5);
    EXPECT_LT(test::relative_error(split.dx, whole.dx), 1e-5);
    for (size_t i = 0; i < whole.gradients.size(); ++i) {
      EXPECT_LT(test::relative_error(split.gradients[i], whole.gradients[i]), 1e-5)
          << "parameter " << i;
    }
  }
}

}  // namespace
}  // namespace sotto::nn
