// The grouped convolution at shapes that the kernel table does not have: taps of both parities,
// ends of utterances at every place of a block, groups of all kinds; and its windows in chunks.
#include "sotto/kernels/convolution/grouped_convolution.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sotto/core/error.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/norm/weight_norm.h"
#include "support/convolution_reference.h"
#include "support/kernel_case_tools.h"
#include "support/tolerance.h"

namespace sotto::kernels {
namespace grouped_convolution_test {

using test::convolution_truth;
using test::ConvolutionTruth;
using test::kernel_tolerance;
using test::random_values;
using test::relative_error;

struct Layer {
  int64_t groups, channels, taps;

  int64_t width() const { return groups * channels; }
};

struct Data {
  Data(const Layer& layer, const Packing& packing, at::ScalarType type)
      : x(random_values({packing.num_frames(), layer.width()}, 1).to(type)),
        dy(random_values({packing.num_frames(), layer.width()}, 2).to(type)),
        weight(random_values({layer.width(), layer.channels, layer.taps}, 3).to(type)) {}

  at::Tensor x, dy;   // [N, D]
  at::Tensor weight;  // [D, C, K]
};

ConvolutionTruth run(const Data& data, const Packing& packing,
                     const GroupedConvolution::Options& options) {
  at::Tensor grad_weight = at::zeros(data.weight.sizes());
  GroupedConvolution::accumulate(grad_weight, {.dy = data.dy, .x = data.x}, packing, options);
  return {.y = GroupedConvolution::forward(data.x, data.weight, packing, options),
          .dx = GroupedConvolution::input_gradient(data.dy, data.weight, packing, options),
          .grad_weight = grad_weight};
}

void expect_truth(const Layer& layer, const std::vector<int64_t>& lengths,
                  const GroupedConvolution::Options& options) {
  const Packing packing(lengths, at::kCPU);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(fmt::format("{} groups of {}, {} taps, block {}, {} utterances, {}", layer.groups,
                             layer.channels, layer.taps, options.block, lengths.size(),
                             c10::toString(type)));
    const Data data(layer, packing, type);
    const ConvolutionTruth ours = run(data, packing, options);
    const ConvolutionTruth truth =
        convolution_truth({.x = data.x, .dy = data.dy, .weight = data.weight}, packing);
    EXPECT_LE(relative_error(ours.y, truth.y), kernel_tolerance(type));
    EXPECT_LE(relative_error(ours.dx, truth.dx), kernel_tolerance(type));
    // fp32 whatever the type is.
    EXPECT_LE(relative_error(ours.grad_weight, truth.grad_weight), kernel_tolerance(at::kFloat));
  }
}

TEST(GroupedConvolution, AgreesWithAtenForEvenAndOddTaps) {
  for (const int64_t taps : {1, 2, 3, 4, 7, 8, 16, 17, 24, 31})
    expect_truth({.groups = 2, .channels = 4, .taps = taps}, {19, 5, 33}, {.block = 4});
}

TEST(GroupedConvolution, UtterancesMayEndAnywhereInABlock) {
  for (const int64_t block : {1, 3, 8}) {
    for (const int64_t taps : {6, 9}) {
      expect_truth({.groups = 2, .channels = 3, .taps = taps},
                   {block, 2 * block, 2 * block + 1, std::max<int64_t>(1, 3 * block - 1), 1},
                   {.block = block});
    }
  }
}

TEST(GroupedConvolution, UtterancesMayBeShorterThanTheTaps) {
  for (const int64_t taps : {40, 41}) {
    expect_truth({.groups = 1, .channels = 5, .taps = taps}, {1, 7, 39, 1, 1}, {.block = 4});
    expect_truth({.groups = 2, .channels = 2, .taps = taps}, {1}, {.block = 16});
    expect_truth({.groups = 2, .channels = 2, .taps = taps}, {3, 2}, {});
  }
}

TEST(GroupedConvolution, SupportsGroupsOfAllSizes) {
  for (const Layer layer :
       {Layer{.groups = 1, .channels = 24, .taps = 12},
        Layer{.groups = 7, .channels = 1, .taps = 12}, Layer{.groups = 1, .channels = 1, .taps = 5},
        Layer{.groups = 4, .channels = 3, .taps = 12},
        Layer{.groups = 2, .channels = 70, .taps = 33}}) {
    expect_truth(layer, {23, 8, 1, 40}, {.block = 4});
    expect_truth(layer, {23, 8, 1, 40}, {});
  }
}

// The shape of wav2vec2, for a short pack.
TEST(GroupedConvolution, AgreesWithAtenAtPositionalShape) {
  expect_truth({.groups = 4, .channels = 48, .taps = 128}, {150, 49}, {});
  expect_truth({.groups = 2, .channels = 64, .taps = 128}, {150, 49}, {.block = 16});
}

// Computed by hand: the middle tap of an odd number is the frame itself, and an even number looks
// one frame further back than ahead.
TEST(GroupedConvolution, TapsAlignWithHuggingFace) {
  const Packing packing({4}, at::kCPU);
  const at::Tensor x = at::arange(1, 5, at::kFloat).view({4, 1});
  const auto shifted_by = [&](int64_t taps, int64_t tap) {
    at::Tensor weight = at::zeros({1, 1, taps});
    weight[0][0][tap] = 1.0;
    return GroupedConvolution::forward(x, weight, packing, {.block = 2}).view({4});
  };
  EXPECT_TRUE(at::equal(shifted_by(3, 1), at::tensor({1.0f, 2.0f, 3.0f, 4.0f})));
  EXPECT_TRUE(at::equal(shifted_by(4, 0), at::tensor({0.0f, 0.0f, 1.0f, 2.0f})));
  EXPECT_TRUE(at::equal(shifted_by(4, 3), at::tensor({2.0f, 3.0f, 4.0f, 0.0f})));
}

// Compares bits: values of another utterance, even NaN, have no effect.
TEST(GroupedConvolution, UtterancesDoNotSeeEachOther) {
  const Packing packing({9, 6, 21}, at::kCPU);
  const Data data({.groups = 2, .channels = 3, .taps = 14}, packing, at::kFloat);
  const GroupedConvolution::Options options{.block = 4};
  const ConvolutionTruth before = run(data, packing, options);
  for (size_t changed = 0; changed < 3; ++changed) {
    Data others = data;
    others.x = data.x.clone();
    others.dy = data.dy.clone();
    for (at::Tensor* values : {&others.x, &others.dy})
      values->narrow(0, packing.starts()[changed], packing.lengths()[changed]).fill_(NAN);
    const ConvolutionTruth after = run(others, packing, options);
    for (size_t u = 0; u < 3; ++u) {
      const auto rows = [&](const at::Tensor& all) {
        return all.narrow(0, packing.starts()[u], packing.lengths()[u]);
      };
      EXPECT_EQ(at::equal(rows(before.y), rows(after.y)), u != changed);
      EXPECT_EQ(at::equal(rows(before.dx), rows(after.dx)), u != changed);
    }
  }
}

// Chunks that end inside utterances and at their ends, and the smallest chunk, one block.
TEST(GroupedConvolution, ChunkingWindowsChangesNothing) {
  const Layer layer{.groups = 2, .channels = 3, .taps = 10};
  const Packing packing({17, 4, 1, 30}, at::kCPU);
  const int64_t row_bytes = (4 + layer.taps - 1) * layer.channels * 4;
  const Data data(layer, packing, at::kFloat);
  const ConvolutionTruth whole = run(data, packing, {.block = 4});
  for (const int64_t rows : {0, 1, 2, 5, 14, 15}) {
    const ConvolutionTruth parts =
        run(data, packing, {.block = 4, .max_window_bytes = rows * row_bytes});
    EXPECT_LE(relative_error(parts.y, whole.y), kernel_tolerance(at::kFloat)) << rows;
    EXPECT_LE(relative_error(parts.dx, whole.dx), kernel_tolerance(at::kFloat)) << rows;
    EXPECT_LE(relative_error(parts.grad_weight, whole.grad_weight), kernel_tolerance(at::kFloat))
        << rows;
  }
}

TEST(GroupedConvolution, AccumulatesIntoTheGradient) {
  const Packing packing({6, 11}, at::kCPU);
  const Data data({.groups = 3, .channels = 2, .taps = 5}, packing, at::kFloat);
  at::Tensor grad_weight = at::full(data.weight.sizes(), 100.0);
  GroupedConvolution::accumulate(grad_weight, {.dy = data.dy, .x = data.x}, packing, {});
  const ConvolutionTruth truth =
      convolution_truth({.x = data.x, .dy = data.dy, .weight = data.weight}, packing);
  EXPECT_LE(relative_error(grad_weight, truth.grad_weight + 100.0), kernel_tolerance(at::kFloat));
}

TEST(GroupedConvolution, RefusesMismatchedShapes) {
  const Packing packing({6}, at::kCPU);
  const at::Tensor x = at::zeros({6, 8});
  EXPECT_THROW(GroupedConvolution::forward(x, at::zeros({8, 3, 4}), packing, {}), InternalError);
  EXPECT_THROW(GroupedConvolution::forward(x, at::zeros({4, 4, 4}), packing, {}), InternalError);
  EXPECT_THROW(GroupedConvolution::forward(x.narrow(0, 0, 5), at::zeros({8, 4, 4}), packing, {}),
               InternalError);
  EXPECT_THROW(GroupedConvolution::forward(x, at::zeros({8, 4, 4}, at::kBFloat16), packing, {}),
               InternalError);
}

// A dry run of forward and backward, in utterances of 500 frames or fewer.
device::MemoryReport dry_report(int64_t frames) {
  const auto arena =
      std::make_shared<device::Arena>(device::RegionKind::kNothing, device::Arena::kUnlimited);
  const device::ArenaGuard guard(at::kMeta, arena);
  const auto options = at::device(at::kMeta).dtype(at::kBFloat16);
  std::vector<int64_t> lengths;
  for (int64_t rest = frames; rest > 0; rest -= lengths.back())
    lengths.push_back(std::min<int64_t>(rest, 500));
  const Packing packing(lengths, at::kMeta);
  const at::Tensor weight = at::empty({128, 64, 128}, options);
  const at::Tensor x = at::empty({frames, 128}, options);
  at::Tensor gradient = at::empty(weight.sizes(), options.dtype(at::kFloat));
  GroupedConvolution::forward(x, weight, packing, {});
  GroupedConvolution::input_gradient(x, weight, packing, {});
  GroupedConvolution::accumulate(gradient, {.dy = x, .x = x}, packing, {});
  return arena->report();
}

// More frames never take less memory: the search for frame limits relies on it.
TEST(GroupedConvolutionMemory, GrowsWithFramesAndHasABoundedWorkspace) {
  int64_t before = 0;
  for (int64_t frames = 1; frames < 40'000; frames += 53) {
    const int64_t bytes = dry_report(frames).peak;
    EXPECT_GE(bytes, before) << frames;
    before = bytes;
  }
  constexpr auto kWorkspace = static_cast<size_t>(device::Category::kWorkspace);
  EXPECT_EQ(dry_report(400'000).at_peak[kWorkspace], dry_report(800'000).at_peak[kWorkspace]);
}

TEST(WeightNorm, ZeroTapIsNanAndAffectsNoOther) {
  const at::Tensor v = at::ones({4, 1, 3});
  v.select(2, 1).zero_();
  const at::Tensor w = WeightNorm::forward(v, at::ones({3}), at::kFloat).w;
  EXPECT_TRUE(w.select(2, 1).isnan().all().item<bool>());
  EXPECT_TRUE(at::equal(w.select(2, 2), at::full({4, 1}, 0.5)));
}

TEST(WeightNorm, StaysAccurateAtRealSizes) {
  const at::Tensor v = at::randn({256, 64, 128}) * 0.05 + 0.01, g = at::rand({128}) + 0.5;
  const at::Tensor truth = v.to(at::kDouble).square().sum(0).sum(0).sqrt();
  const WeightNorm::Result result = WeightNorm::forward(v, g, at::kFloat);
  EXPECT_LE(relative_error(result.norm, truth), kernel_tolerance(at::kFloat));
  EXPECT_LE(relative_error(result.w, v.to(at::kDouble) * (g.to(at::kDouble) / truth)),
            kernel_tolerance(at::kFloat));
}

}  // namespace grouped_convolution_test
}  // namespace sotto::kernels
