// Subsampling over time and mel bins on a GPU: the CPU's numbers, the same bits again, and the
// bytes that the dry run said.
#include <gtest/gtest.h>

#include "sotto/device/torch_memory.h"
#include "sotto/nn/fronts/image_subsampling.h"
#include "support/gpu.h"
#include "support/kernel_case_tools.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace {

using device::Arena;
using device::ArenaGuard;
using device::MemoryReport;
using device::RegionKind;
using nn::ImageSubsampling;
using nn::ImageSubsamplingOptions;

const std::vector<int64_t> kLengths = {700, 1, 333, 6};

template <class Body>
void for_each_network(Body body) {
  for (const auto& [name, kind] : nn::kImageSubsamplingKinds) {
    for (const int64_t factor : {2, 4, 8}) {
      for (const int64_t piece : {0, 30}) {
        SCOPED_TRACE(std::string(name) + " by " + std::to_string(factor) + " in pieces of " +
                     std::to_string(piece));
        body(ImageSubsamplingOptions{
            .kind = kind, .factor = factor, .channels = 64, .width = 96, .piece_frames = piece});
      }
    }
  }
}

// Values without negative numbers: rounding does not decide what ReLU lets through. Small enough
// that fp16 holds all sums.
at::Tensor input_of(at::IntArrayRef sizes, at::ScalarType type, const at::Device& device) {
  const at::TensorOptions options = at::device(device).dtype(type);
  at::Tensor result = at::empty(sizes, options);
  if (!device.is_meta()) result.copy_(0.1 * random_values(sizes, 1).abs());
  return result;
}

// Returns y and all gradients.
Tensors run(const ImageSubsamplingOptions& options, at::ScalarType type, const at::Device& device) {
  nn::ParameterStore store;
  const ImageSubsampling subsampling(store, "front", options);
  store.allocate({.device = device});
  if (!device.is_meta())
    for (nn::Parameter& parameter : store.parameters()) parameter.value.abs_();
  const std::vector<kernels::Packing> packings =
      subsampling.packings_from(kernels::Packing(kLengths, device));
  const nn::Context context{.step = {}, .packing = packings.back()};
  nn::Tape tape;
  const at::Tensor x =
      input_of({packings.front().num_frames(), options.num_features}, type, device);
  const at::Tensor dy = input_of({packings.back().num_frames(), options.width}, type, device);
  Tensors results = {subsampling.forward(x, packings, context, tape)};
  subsampling.backward(dy, packings, context, tape);
  for (const nn::Parameter& parameter : store.parameters()) results.push_back(parameter.gradient);
  return results;
}

TEST(CudaImageSubsampling, AgreesWithTheCpu) {
  SOTTO_SKIP_WITHOUT_GPU();
  for_each_network([](const ImageSubsamplingOptions& options) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const Tensors on_cpu = run(options, type, at::kCPU);
      const Tensors on_gpu = run(options, type, gpu()->torch);
      const Tensors again = run(options, type, gpu()->torch);
      // Layers round in between, unlike a kernel.
      const double tolerance = type == at::kFloat ? 1e-4 : 0.03;
      for (size_t i = 0; i < on_cpu.size(); ++i) {
        EXPECT_LE(relative_error(on_gpu[i], on_cpu[i]), tolerance) << "result " << i << " " << type;
        EXPECT_TRUE(at::equal(on_gpu[i], again[i])) << "result " << i << " " << type;
      }
    }
  });
}

MemoryReport memory_of(const ImageSubsamplingOptions& options, at::ScalarType type,
                       const at::Device& device) {
  const bool is_dry = device.is_meta();
  const auto arena = std::make_shared<Arena>(is_dry ? RegionKind::kNothing : RegionKind::kCuda,
                                             is_dry ? Arena::kUnlimited : int64_t{1} << 30);
  const device::TargetScope target(gpu()->target);
  const ArenaGuard guard(device.type(), arena);
  run(options, type, device);
  return arena->report();
}

TEST(CudaImageSubsampling, DryEqualsMeasured) {
  SOTTO_SKIP_WITHOUT_GPU();
  for_each_network([](const ImageSubsamplingOptions& options) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const MemoryReport dry = memory_of(options, type, at::kMeta);
      const MemoryReport real = memory_of(options, type, gpu()->torch);
      EXPECT_EQ(dry.peak, real.peak);
      EXPECT_EQ(dry.high_water, real.high_water);
      EXPECT_EQ(dry.at_peak, real.at_peak);
    }
  });
}

}  // namespace
}  // namespace sotto::test
