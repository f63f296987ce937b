// The memory of the transducer loss: dry as real over several chunks, and small beside the lattice.
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>

#include "sotto/device/torch_memory.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/loss/transducer.h"

namespace sotto::test {
namespace transducer_memory_test {

using device::Arena;
using device::ArenaGuard;
using device::RegionKind;
using kernels::Transducer;

constexpr int64_t kMiB = 1 << 20;

struct Loss {
  std::vector<int64_t> frames;
  std::vector<int64_t> labels;
  int64_t width, outputs;
  Transducer::Options options;

  int64_t num_nodes() const {
    int64_t nodes = 0;
    for (size_t u = 0; u < frames.size(); ++u) nodes += frames[u] * (labels[u] + 1);
    return nodes;
  }
};

struct Observed {
  device::MemoryReport memory;
  // Taken by the call itself.
  int64_t own_bytes;
};

// Forward, or the losses alone, with inputs in the same arena.
Observed observe(const Loss& loss, const at::TensorOptions& type, bool with_gradient) {
  const bool dry = type.device().is_meta();
  const auto arena = std::make_shared<Arena>(dry ? RegionKind::kNothing : RegionKind::kHost,
                                             dry ? Arena::kUnlimited : 64 * kMiB);
  const ArenaGuard guard(type.device().type(), arena);
  int64_t own_bytes = 0;
  {
    std::vector<int64_t> predictions;
    std::vector<std::vector<int32_t>> values;
    for (const int64_t count : loss.labels) {
      predictions.push_back(count + 1);
      values.emplace_back(count, 1);
    }
    const kernels::Packing of_frames(loss.frames, type.device());
    const kernels::Packing of_predictions(predictions, type.device());
    const kernels::Labels labels(values, type.device());
    const at::TensorOptions fp32 = type.dtype(at::kFloat);
    const at::Tensor encoder = at::zeros({of_frames.num_frames(), loss.width}, type);
    const at::Tensor prediction = at::zeros({of_predictions.num_frames(), loss.width}, type);
    const at::Tensor weight = at::zeros({loss.outputs, loss.width}, type);
    const at::Tensor bias = at::zeros({loss.outputs}, fp32);
    at::Tensor grad_weight = at::zeros(weight.sizes(), fp32);
    at::Tensor grad_bias = at::zeros(bias.sizes(), fp32);
    const Transducer::Inputs in{.encoder = encoder,
                                .prediction = prediction,
                                .weight = weight,
                                .bias = bias,
                                .frames = of_frames,
                                .predictions = of_predictions,
                                .labels = labels};
    const int64_t before = arena->report().live;
    if (with_gradient) {
      const std::vector<float> weights(loss.frames.size(), 1.0f);
      Transducer::forward(in, weights, {.weight = &grad_weight, .bias = &grad_bias}, loss.options);
    } else {
      Transducer::evaluate(in, loss.options);
    }
    own_bytes = arena->report().peak - before;
  }
  EXPECT_EQ(arena->num_blocks(), 0);
  return {.memory = arena->report(), .own_bytes = own_bytes};
}

// Utterance by utterance one without an alignment, without labels, and with several chunks.
Loss small_loss() {
  return {.frames = {3, 7, 40},
          .labels = {5, 0, 6},
          .width = 24,
          .outputs = 30,
          .options = {.durations = {1, 2}, .chunk_bytes = 0}};
}

TEST(TransducerMemory, DryEqualsMeasuredOverChunks) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const bool with_gradient : {true, false}) {
      SCOPED_TRACE(c10::toString(type));
      const auto on = [&](at::DeviceType device) {
        return observe(small_loss(), at::device(device).dtype(type), with_gradient).memory;
      };
      const device::MemoryReport dry = on(at::kMeta);
      const device::MemoryReport real = on(at::kCPU);
      EXPECT_EQ(dry.peak, real.peak);
      EXPECT_EQ(dry.high_water, real.high_water);
      EXPECT_EQ(dry.at_peak, real.at_peak);
      EXPECT_EQ(dry.num_reservations, real.num_reservations);
      for (const device::LibraryUse& use : real.library_calls)
        EXPECT_EQ(use.num_breaches, 0)
            << use.name << " declared " << use.declared_bytes << " measured " << use.measured_bytes;
    }
  }
}

// 400 s of speech at 12.5 frames per second, 3 labels a second, 8,193 entries and 5 durations: the
// logits of the whole lattice would have 3.7 GB in 16 bits.
TEST(TransducerMemory, StaysBelow256MiBOnAGpu) {
  const device::TargetScope target(
      {.processor = device::Processor::kCuda, .capability = 90, .num_sms = 132});
  const Loss loss{.frames = std::vector<int64_t>(27, 187),
                  .labels = std::vector<int64_t>(27, 45),
                  .width = 640,
                  .outputs = 8'198,
                  .options = {.durations = {0, 1, 2, 3, 4}}};
  const auto type = at::device(at::kMeta).dtype(at::kBFloat16);
  EXPECT_GT(loss.num_nodes() * loss.outputs * 2, 3'700'000'000);
  EXPECT_LT(observe(loss, type, true).own_bytes, 256 * kMiB);
  EXPECT_GT(observe(loss, type, true).own_bytes, 64 * kMiB) << "chunks are too small";
  EXPECT_LT(observe(loss, type, false).own_bytes, 128 * kMiB);
}

TEST(TransducerMemory, ChunkHasAsManyNodesAsFit) {
  const device::TargetScope target({.processor = device::Processor::kCuda, .capability = 90});
  const auto type = at::device(at::kMeta).dtype(at::kBFloat16);
  // Rows of 100,000 logits in 16 bits: all else together is less, but for a copy of the bias.
  const auto nodes_for = [&](int64_t chunk_bytes) {
    const Loss loss{.frames = {200},
                    .labels = {9},
                    .width = 8,
                    .outputs = 100'000,
                    .options = {.chunk_bytes = chunk_bytes}};
    return observe(loss, type, false).own_bytes / 200'016 - 1;
  };
  EXPECT_EQ(nodes_for(0), 64);
  EXPECT_EQ(nodes_for(128 * 200'000 - 1), 64);
  EXPECT_EQ(nodes_for(128 * 200'000), 128);
  EXPECT_EQ(nodes_for(1 << 30), 2'000);
}

}  // namespace transducer_memory_test
}  // namespace sotto::test
