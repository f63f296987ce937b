// The depthwise convolution at shapes that the kernel table does not have: real sizes, ends of
// utterances at every place of a tile, more taps than one copy of frames serves; and what it
// refuses.
#include "sotto/kernels/convolution/depthwise_convolution.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sotto/core/error.h"
#include "sotto/device/torch_memory.h"
#include "support/convolution_reference.h"
#include "support/kernel_case_tools.h"
#include "support/thrown.h"
#include "support/tolerance.h"

namespace sotto::kernels {
namespace depthwise_convolution_test {

using test::convolution_truth;
using test::ConvolutionTruth;
using test::kernel_tolerance;
using test::random_values;
using test::relative_error;

struct Layer {
  int64_t channels, taps;
};

struct Data {
  Data(const Layer& layer, const Packing& packing, at::ScalarType type, at::ScalarType weights)
      : x(random_values({packing.num_frames(), layer.channels}, 1).to(type)),
        dy(random_values({packing.num_frames(), layer.channels}, 2).to(type)),
        weight(random_values({layer.channels, layer.taps}, 3).to(weights)),
        bias(random_values({layer.channels}, 4).to(at::kFloat)) {}

  at::Tensor x, dy;   // [N, C]
  at::Tensor weight;  // [C, K]
  at::Tensor bias;    // [C]
};

struct Results {
  at::Tensor y, dx;        // [N, C]
  at::Tensor grad_weight;  // [C, K]
  at::Tensor grad_bias;    // [C]
};

Results run(const Data& data, const Packing& packing) {
  Results results{.y = DepthwiseConvolution::forward(
                      data.x, {.weight = data.weight, .bias = &data.bias}, packing),
                  .dx = DepthwiseConvolution::input_gradient(data.dy, data.weight, packing),
                  .grad_weight = at::zeros(data.weight.sizes()),
                  .grad_bias = at::zeros(data.bias.sizes())};
  DepthwiseConvolution::accumulate({.weight = results.grad_weight, .bias = &results.grad_bias},
                                   {.dy = data.dy, .x = data.x}, packing);
  return results;
}

void expect_truth(const Layer& layer, const std::vector<int64_t>& lengths, at::ScalarType type,
                  at::ScalarType weights) {
  SCOPED_TRACE(fmt::format("{} channels, {} taps, {} utterances, {}, weights in {}", layer.channels,
                           layer.taps, lengths.size(), c10::toString(type),
                           c10::toString(weights)));
  const Packing packing(lengths, at::kCPU);
  const Data data(layer, packing, type, weights);
  const Results ours = run(data, packing);
  const ConvolutionTruth truth =
      convolution_truth({.x = data.x, .dy = data.dy, .weight = data.weight.unsqueeze(1)}, packing);
  EXPECT_LE(relative_error(ours.y, truth.y + data.bias), kernel_tolerance(type));
  EXPECT_LE(relative_error(ours.dx, truth.dx), kernel_tolerance(type));
  // fp32 whatever the type is.
  EXPECT_LE(relative_error(ours.grad_weight, truth.grad_weight.squeeze(1)),
            kernel_tolerance(at::kFloat));
  EXPECT_LE(relative_error(ours.grad_bias, data.dy.to(at::kDouble).sum(0)),
            kernel_tolerance(at::kFloat));
}

void expect_truth(const Layer& layer, const std::vector<int64_t>& lengths) {
  expect_truth(layer, lengths, at::kFloat, at::kFloat);
  expect_truth(layer, lengths, at::kBFloat16, at::kBFloat16);
  expect_truth(layer, lengths, at::kHalf, at::kFloat);
}

TEST(DepthwiseConvolution, AgreesWithAtenForEveryNumberOfTaps) {
  for (const int64_t taps : {1, 3, 9, 17, 31})
    expect_truth({.channels = 20, .taps = taps}, {19, 70, 5});
}

TEST(DepthwiseConvolution, TakesMoreTapsThanOneCopyServes) {
  for (const int64_t taps : {65, 131}) expect_truth({.channels = 18, .taps = taps}, {19, 90, 1});
}

TEST(DepthwiseConvolution, UtterancesMayEndAnywhereInATile) {
  for (const int64_t tile : {16, 64}) {
    expect_truth({.channels = 6, .taps = 9},
                 {tile, 2 * tile, 2 * tile + 1, 3 * tile - 1, 1, tile + 3, tile - 3});
  }
}

TEST(DepthwiseConvolution, UtterancesMayBeShorterThanTheTaps) {
  expect_truth({.channels = 5, .taps = 31}, {1, 7, 15, 16, 30, 1});
  expect_truth({.channels = 5, .taps = 31}, {1});
  expect_truth({.channels = 33, .taps = 81}, {3, 2, 40});
}

TEST(DepthwiseConvolution, AgreesWithAtenAtRealSizes) {
  for (const Layer layer : {Layer{.channels = 128, .taps = 31}, Layer{.channels = 512, .taps = 31},
                            Layer{.channels = 1024, .taps = 9}})
    expect_truth(layer, {70, 13, 30}, at::kFloat, at::kFloat);
  // Enough frames for several slabs.
  expect_truth({.channels = 3, .taps = 9}, {1'500, 700, 1, 800}, at::kBFloat16, at::kFloat);
}

// Frames of one utterance do not reach another one, even if they are NaN.
TEST(DepthwiseConvolution, NeverReadsFramesOfOtherUtterances) {
  const Packing packing({17, 3, 70, 40}, at::kCPU);
  const Layer layer{.channels = 21, .taps = 15};
  const Data data(layer, packing, at::kFloat, at::kFloat);
  const Results before = run(data, packing);
  for (size_t changed = 0; changed < 4; ++changed) {
    Data others(layer, packing, at::kFloat, at::kFloat);
    for (at::Tensor* rows : {&others.x, &others.dy})
      rows->narrow(0, packing.starts()[changed], packing.lengths()[changed]).fill_(NAN);
    const Results after = run(others, packing);
    for (size_t u = 0; u < 4; ++u) {
      const auto rows = [&](const at::Tensor& all) {
        return all.narrow(0, packing.starts()[u], packing.lengths()[u]);
      };
      EXPECT_EQ(at::equal(rows(before.y), rows(after.y)), u != changed);
      EXPECT_EQ(at::equal(rows(before.dx), rows(after.dx)), u != changed);
    }
    // Products of frames of two utterances would change the weight's gradient.
    Data zeroed(layer, packing, at::kFloat, at::kFloat);
    zeroed.dy.narrow(0, packing.starts()[changed], packing.lengths()[changed]).zero_();
    const Results without = run(zeroed, packing);
    zeroed.x.narrow(0, packing.starts()[changed], packing.lengths()[changed]).fill_(7.0f);
    EXPECT_TRUE(at::equal(run(zeroed, packing).grad_weight, without.grad_weight));
  }
}

TEST(DepthwiseConvolution, AccumulatesIntoTheGradients) {
  const Packing packing({6, 11}, at::kCPU);
  const Data data({.channels = 6, .taps = 5}, packing, at::kFloat, at::kFloat);
  const Results once = run(data, packing);
  at::Tensor grad_weight = at::full(data.weight.sizes(), 100.0f);
  DepthwiseConvolution::accumulate({.weight = grad_weight}, {.dy = data.dy, .x = data.x}, packing);
  EXPECT_LE(relative_error(grad_weight, once.grad_weight + 100.0), kernel_tolerance(at::kFloat));
}

TEST(DepthwiseConvolution, RefusesWhatItCannotCompute) {
  const Packing packing({6}, at::kCPU);
  const at::Tensor x = at::zeros({6, 8});
  const auto forward = [&](const at::Tensor& rows, const at::Tensor& weight) {
    DepthwiseConvolution::forward(rows, {.weight = weight}, packing);
  };
  EXPECT_THROW(forward(x, at::zeros({7, 3})), InternalError);
  EXPECT_THROW(forward(x, at::zeros({8, 1, 3})), InternalError);
  EXPECT_THROW(forward(x.narrow(0, 0, 5), at::zeros({8, 3})), InternalError);
  EXPECT_THROW(forward(x, at::zeros({8, 3}, at::kBFloat16)), InternalError);
  at::Tensor gradient = at::zeros({8, 3}, at::kBFloat16);
  EXPECT_THROW(DepthwiseConvolution::accumulate({.weight = gradient}, {.dy = x, .x = x}, packing),
               InternalError);
  const std::string message =
      test::message_of<InternalError>([&] { forward(x, at::zeros({8, 4})); });
  EXPECT_NE(message.find("4 taps, expected an odd number"), std::string::npos) << message;
}

// More frames never take less memory: the search for frame limits relies on it.
TEST(DepthwiseConvolutionMemory, GrowsWithFramesAndHasABoundedWorkspace) {
  const auto report = [](int64_t frames) {
    const auto arena =
        std::make_shared<device::Arena>(device::RegionKind::kNothing, device::Arena::kUnlimited);
    const device::ArenaGuard guard(at::kMeta, arena);
    const auto options = at::device(at::kMeta).dtype(at::kBFloat16);
    const Packing packing({frames}, at::kMeta);
    const at::Tensor weight = at::empty({128, 31}, options), x = at::empty({frames, 128}, options);
    at::Tensor gradient = at::empty(weight.sizes(), options.dtype(at::kFloat));
    DepthwiseConvolution::forward(x, {.weight = weight}, packing);
    DepthwiseConvolution::input_gradient(x, weight, packing);
    DepthwiseConvolution::accumulate({.weight = gradient}, {.dy = x, .x = x}, packing);
    return arena->report();
  };
  int64_t before = 0;
  for (int64_t frames = 1; frames < 40'000; frames += 53) {
    const int64_t bytes = report(frames).peak;
    EXPECT_GE(bytes, before) << frames;
    before = bytes;
  }
  constexpr auto kWorkspace = static_cast<size_t>(device::Category::kWorkspace);
  EXPECT_EQ(report(400'000).at_peak[kWorkspace], report(800'000).at_peak[kWorkspace]);
}

}  // namespace depthwise_convolution_test
}  // namespace sotto::kernels
