// The memory of cross entropy: below 64 MiB whatever the rows, on both devices, and dry as real
// where the vocabulary has several slices.
#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "sotto/device/torch_memory.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/loss/cross_entropy.h"

namespace sotto::test {
namespace cross_entropy_memory_test {

using device::Arena;
using device::ArenaGuard;
using device::RegionKind;
using kernels::CrossEntropy;

constexpr int64_t kMiB = 1 << 20;

struct Loss {
  int64_t rows, width, vocabulary;
  bool all_rows_count = true;
};

struct Observed {
  device::MemoryReport memory;
  // Taken by the call itself, without dx.
  int64_t own_bytes;
};

// Forward, or the losses alone, with inputs in the same arena.
Observed observe(const Loss& loss, const CrossEntropy::Options& options,
                 const at::TensorOptions& type, bool with_gradient) {
  const bool dry = type.device().is_meta();
  const auto arena = std::make_shared<Arena>(dry ? RegionKind::kNothing : RegionKind::kHost,
                                             dry ? Arena::kUnlimited : 64 * kMiB);
  const ArenaGuard guard(type.device().type(), arena);
  int64_t own_bytes = 0;
  {
    const kernels::Packing packing({loss.rows - 10, 10}, type.device());
    std::vector<std::vector<int32_t>> values = {std::vector<int32_t>(packing.lengths()[0], 1),
                                                std::vector<int32_t>(10, 0)};
    if (!loss.all_rows_count) values[1][3] = CrossEntropy::kNoTarget;
    const kernels::Labels targets(values, type.device());
    const at::Tensor x = at::zeros({loss.rows, loss.width}, type);
    const at::Tensor weight = at::zeros({loss.vocabulary, loss.width}, type);
    at::Tensor grad_weight = at::zeros(weight.sizes(), type.dtype(at::kFloat));
    const CrossEntropy::Inputs in{.x = x, .weight = weight, .packing = packing, .targets = targets};
    const int64_t before = arena->report().live;
    if (with_gradient) {
      const CrossEntropy::Result result =
          CrossEntropy::forward(in, std::vector<float>{1.0f, 1.0f}, &grad_weight, options);
      own_bytes = arena->report().peak - before - static_cast<int64_t>(result.dx.nbytes());
    } else {
      CrossEntropy::evaluate(in, options);
      own_bytes = arena->report().peak - before;
    }
  }
  EXPECT_EQ(arena->num_blocks(), 0);
  return {.memory = arena->report(), .own_bytes = own_bytes};
}

// Of how many cores the library's bound is made must not depend on the machine of the test.
class OnSixteenCores {
 public:
  OnSixteenCores() { at::set_num_threads(16); }
  ~OnSixteenCores() { at::set_num_threads(before_); }
  OnSixteenCores(const OnSixteenCores&) = delete;
  OnSixteenCores& operator=(const OnSixteenCores&) = delete;

 private:
  int before_ = at::get_num_threads();
};

TEST(CrossEntropyMemory, StaysBelow64MiBForAnyNumberOfRows) {
  const OnSixteenCores cores;
  for (const device::Processor processor : {device::Processor::kCpu, device::Processor::kCuda}) {
    const device::TargetScope target({.processor = processor, .capability = 90, .num_sms = 132});
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const int64_t rows : {4'096, 16'384}) {
        for (const bool all_rows_count : {true, false}) {
          SCOPED_TRACE(std::string(processor == device::Processor::kCpu ? "CPU" : "CUDA") + ", " +
                       c10::toString(type) + ", " + std::to_string(rows) + " rows");
          const Loss loss{rows, 1'024, 50'000, all_rows_count};
          const auto options = at::device(at::kMeta).dtype(type);
          const int64_t forward_bytes = observe(loss, {}, options, true).own_bytes;
          EXPECT_LT(forward_bytes, 64 * kMiB);
          EXPECT_GT(forward_bytes, 32 * kMiB) << "what is left unused makes chunks too small";
          EXPECT_LT(observe(loss, {}, options, false).own_bytes, 64 * kMiB);
        }
      }
    }
  }
}

TEST(CrossEntropyMemory, WholeVariantHoldsAllLogits) {
  const Loss loss{4'096, 1'024, 50'000};
  const CrossEntropy::Options whole{.variant = CrossEntropy::Variant::kWhole};
  const int64_t logits_bytes = int64_t{4'096} * 50'000 * 2;
  const auto options = at::device(at::kMeta).dtype(at::kBFloat16);
  EXPECT_GT(observe(loss, whole, options, true).own_bytes, logits_bytes);
}

TEST(CrossEntropyMemory, ChunkHasAsManyRowsAsFit) {
  const device::TargetScope target({.processor = device::Processor::kCuda, .capability = 90});
  const auto options = at::device(at::kMeta).dtype(at::kBFloat16);
  // Of 1,000 entries in 16 bits. Beside the logits evaluation takes but some bytes a row.
  const auto rows_for = [&](int64_t chunk_bytes) {
    const int64_t bytes =
        observe({2'000, 8, 1'000}, {.chunk_bytes = chunk_bytes}, options, false).own_bytes;
    return (bytes - 2'000 * 16) / 2'000;
  };
  EXPECT_EQ(rows_for(0), 64);
  EXPECT_EQ(rows_for(128 * 2'000 - 1), 64);
  EXPECT_EQ(rows_for(128 * 2'000), 128);
  EXPECT_EQ(rows_for(1'984 * 2'000), 1'984);
  EXPECT_EQ(rows_for(1 << 30), 2'000);
}

TEST(CrossEntropyMemory, DryEqualsMeasuredOverSlicesAndChunks) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const bool all_rows_count : {true, false}) {
      for (const bool with_gradient : {true, false}) {
        SCOPED_TRACE(c10::toString(type));
        const Loss loss{150, 96, 2'500, all_rows_count};
        const CrossEntropy::Options options{.chunk_bytes = 0};
        const auto on = [&](at::DeviceType device) {
          return observe(loss, options, at::device(device).dtype(type), with_gradient).memory;
        };
        const device::MemoryReport dry = on(at::kMeta);
        const device::MemoryReport real = on(at::kCPU);
        EXPECT_EQ(dry.peak, real.peak);
        EXPECT_EQ(dry.high_water, real.high_water);
        EXPECT_EQ(dry.at_peak, real.at_peak);
        EXPECT_EQ(dry.num_reservations, real.num_reservations);
        for (const device::LibraryUse& use : real.library_calls)
          EXPECT_EQ(use.num_breaches, 0) << use.name << " declared " << use.declared_bytes
                                         << " measured " << use.measured_bytes;
      }
    }
  }
}

}  // namespace cross_entropy_memory_test
}  // namespace sotto::test
