// A memory feature must not change the numbers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "sotto/nn/feed_forward_stack.h"
#include "support/tolerance.h"

namespace sotto::nn {
namespace {

struct Step {
  at::Tensor y;
  at::Tensor dx;
  std::vector<at::Tensor> gradients;
};

constexpr int64_t kWidth = 48;

// One step over utterances 7, 8, 9, ... of the given lengths, packed as `packs` says (utterances a
// pack).
Step run(const FeedForwardOptions& options, const std::vector<int64_t>& lengths,
         const std::vector<size_t>& packs) {
  FeedForwardStack stack(options, at::kCPU);
  std::vector<at::Tensor> ys, dxs;
  size_t next = 0;
  int64_t first = 0;
  int64_t total = 0;
  for (const int64_t length : lengths) total += length;
  const at::Tensor x =
      at::linspace(-2, 3, total * kWidth).sin().view({total, kWidth}).to(options.type);
  const at::Tensor dy =
      at::linspace(1, -4, total * kWidth).cos().view({total, kWidth}).to(options.type);
  for (const size_t count : packs) {
    std::vector<int64_t> pack;
    std::vector<UtteranceKey> keys;
    for (size_t i = 0; i < count; ++i, ++next) {
      pack.push_back(lengths[next]);
      keys.push_back({.utterance = 7 + next});
    }
    const kernels::Packing packing(pack, at::kCPU, keys);
    ys.push_back(stack.forward(x.narrow(0, first, packing.num_frames()).clone(), packing, 3));
    dxs.push_back(stack.backward(dy.narrow(0, first, packing.num_frames()).clone(), packing, 3));
    first += packing.num_frames();
  }
  Step step{.y = at::cat(ys), .dx = at::cat(dxs), .gradients = {}};
  for (Parameter* parameter : stack.parameters()) step.gradients.push_back(parameter->gradient);
  return step;
}

FeedForwardOptions options_with(Keep keep, at::ScalarType type) {
  return {
      .num_layers = 3, .width = kWidth, .hidden = 100, .dropout = 0.2, .type = type, .keep = keep};
}

TEST(Recompute, GivesTheSameBits) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Step kept = run(options_with(Keep::kEverything, type), {40, 13, 90}, {3});
    const Step recomputed = run(options_with(Keep::kBlockInputs, type), {40, 13, 90}, {3});
    EXPECT_TRUE(at::equal(kept.y, recomputed.y)) << c10::toString(type);
    EXPECT_TRUE(at::equal(kept.dx, recomputed.dx)) << c10::toString(type);
    for (size_t i = 0; i < kept.gradients.size(); ++i) {
      EXPECT_TRUE(at::equal(kept.gradients[i], recomputed.gradients[i])) << "parameter " << i;
    }
  }
}

// The budget decides how many utterances go together; with dropout on, that must not show.
TEST(Split, GivesTheSameGradients) {
  const FeedForwardOptions options = options_with(Keep::kEverything, at::kFloat);
  const Step whole = run(options, {40, 13, 90, 1}, {4});
  for (const std::vector<size_t>& packs : {std::vector<size_t>{1, 1, 1, 1}, {2, 2}, {1, 3}}) {
    const Step split = run(options, {40, 13, 90, 1}, packs);
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
