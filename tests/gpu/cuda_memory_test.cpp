// The arena on a GPU: as on the CPU, and the dry run made for the GPU takes the same bytes.
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/product/gemm.h"
#include "support/gpu.h"
#include "support/kernel_cases.h"

namespace sotto::test {
namespace {

using device::Arena;
using device::ArenaGuard;
using device::MemoryReport;
using device::RegionKind;

constexpr int64_t kMiB = 1 << 20;

TEST(CudaArena, HoldsTensorsWithinItsBudget) {
  SOTTO_SKIP_WITHOUT_GPU();
  const auto arena = std::make_shared<Arena>(RegionKind::kCuda, 8 * kMiB);
  const auto on_gpu = at::TensorOptions().device(at::kCUDA);
  at::Tensor survivor;
  {
    const ArenaGuard guard(at::kCUDA, arena);
    const at::Tensor x = at::full({256, 1024}, 2.0, on_gpu);
    EXPECT_EQ(arena->report().live, kMiB);
    EXPECT_THROW(at::empty({2 * kMiB}, on_gpu), OutOfMemory);
    EXPECT_EQ(arena->report().live, kMiB);
    arena->inject_failure(1);
    EXPECT_THROW(at::empty({16}, on_gpu), OutOfMemory);
    survivor = at::full({1000}, 3.0, on_gpu);
    EXPECT_EQ(x[255][1023].item<float>(), 2.0f);
  }
  EXPECT_EQ(survivor[999].item<float>(), 3.0f);
  survivor = at::Tensor();
  EXPECT_EQ(arena->num_blocks(), 0);
}

TEST(CudaArena, RefusesMoreThanTheCardHas) {
  SOTTO_SKIP_WITHOUT_GPU();
  EXPECT_THROW(Arena(RegionKind::kCuda, int64_t{1} << 42), OutOfMemory);
  const at::Tensor x = at::ones({10}, at::TensorOptions().device(at::kCUDA));
  EXPECT_EQ(x[9].item<float>(), 1.0f) << "the GPU must go on";
}

MemoryReport observe(const KernelCase& row, const Shape& shape, at::ScalarType type,
                     at::DeviceType device) {
  const std::vector<Input> inputs = row.make_inputs(shape);
  const bool dry = device == at::kMeta;
  const auto arena = std::make_shared<Arena>(dry ? RegionKind::kNothing : RegionKind::kCuda,
                                             dry ? Arena::kUnlimited : 256 * kMiB);
  const device::TargetScope target(gpu()->target);
  const ArenaGuard guard(device, arena);
  {
    const kernels::Packing packing(lengths_for(shape.rows), device);
    row.run(materialise(inputs, type, device), packing);
  }
  EXPECT_EQ(arena->num_blocks(), 0) << row.kernel << " left blocks behind";
  return arena->report();
}

class CudaKernelMemory : public ::testing::TestWithParam<std::tuple<KernelCase, at::ScalarType>> {};

TEST_P(CudaKernelMemory, DryEqualsMeasured) {
  SOTTO_SKIP_WITHOUT_GPU();
  const auto& [row, type] = GetParam();
  for (const Shape& shape : kernel_shapes()) {
    const MemoryReport dry = observe(row, shape, type, at::kMeta);
    const MemoryReport real = observe(row, shape, type, at::kCUDA);
    EXPECT_EQ(dry.peak, real.peak) << row.kernel;
    EXPECT_EQ(dry.high_water, real.high_water) << row.kernel;
    EXPECT_EQ(dry.at_peak, real.at_peak) << row.kernel;
    EXPECT_EQ(dry.num_reservations, real.num_reservations) << row.kernel;
    for (const device::LibraryUse& use : real.library_calls) {
      EXPECT_EQ(use.num_breaches, 0)
          << use.name << " declared " << use.declared_bytes << " measured " << use.measured_bytes
          << " at [" << shape.rows << ", " << shape.width << "]";
    }
  }
}

std::string name_of_case(const ::testing::TestParamInfo<CudaKernelMemory::ParamType>& info) {
  return std::get<0>(info.param).kernel + "_" + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Table, CudaKernelMemory,
                         ::testing::Combine(::testing::ValuesIn(cuda_kernel_cases()),
                                            ::testing::Values(at::kFloat, at::kBFloat16,
                                                              at::kHalf)),
                         name_of_case);

// What library calls take at the shapes of real models: within the bound, and not far below it.
struct Heads {
  int64_t number, size;
};

class LibraryBounds : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  static constexpr int64_t kFarBelow = 64 * kMiB;

  void expect_tight(const MemoryReport& report, const std::string& what) {
    for (const device::LibraryUse& use : report.library_calls) {
      EXPECT_EQ(use.num_breaches, 0) << what << ", " << use.name << ": declared "
                                     << use.declared_bytes << ", measured " << use.measured_bytes;
      EXPECT_LT(use.declared_bytes - use.measured_bytes, kFarBelow) << what << ", " << use.name;
      RecordProperty(use.name + " " + what, std::to_string(use.declared_bytes) + " declared, " +
                                                std::to_string(use.measured_bytes) + " taken");
    }
  }
};

TEST_P(LibraryBounds, HoldForAttention) {
  SOTTO_SKIP_WITHOUT_GPU();
  const at::ScalarType type = GetParam();
  for (const Heads heads : {Heads{16, 64}, Heads{16, 80}, Heads{12, 64}, Heads{4, 128}}) {
    const auto arena = std::make_shared<Arena>(RegionKind::kCuda, 2048 * kMiB);
    const ArenaGuard guard(at::kCUDA, arena);
    const device::TargetScope target(gpu()->target);
    const kernels::Packing packing({700, 1200, 63, 900, 5, 128}, at::kCUDA);
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
    const int64_t width = heads.number * heads.size;
    const at::Tensor qkv = at::ones({packing.num_frames(), 3 * width}, options);
    const at::Tensor dy = at::ones({packing.num_frames(), width}, options);
    for (const bool is_causal : {false, true}) {
      kernels::Attention::Options how{.num_heads = heads.number};
      if (is_causal) how.right = 0;
      const auto result = kernels::Attention::forward(qkv, packing, how);
      kernels::Attention::backward({.dy = dy, .qkv = qkv, .y = result.y, .softmax = result.softmax},
                                   packing, how);
    }
    expect_tight(arena->report(), std::to_string(heads.size));
  }
}

// Few queries over many keys, and many over few.
TEST_P(LibraryBounds, HoldForCrossAttention) {
  SOTTO_SKIP_WITHOUT_GPU();
  using kernels::Attention;
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(GetParam());
  const std::vector<int64_t> few = {30, 5, 63, 1, 12, 3}, many = {700, 1200, 63, 900, 5, 128};
  for (const Heads heads : {Heads{16, 64}, Heads{16, 80}, Heads{8, 64}, Heads{4, 128}}) {
    for (const bool has_few_queries : {true, false}) {
      const auto arena = std::make_shared<Arena>(RegionKind::kCuda, 2048 * kMiB);
      const ArenaGuard guard(at::kCUDA, arena);
      const device::TargetScope target(gpu()->target);
      const kernels::Packing queries(has_few_queries ? few : many, at::kCUDA);
      const kernels::Packing keys(has_few_queries ? many : few, at::kCUDA);
      const Attention::Packs packs{.queries = queries, .keys = keys};
      const int64_t width = heads.number * heads.size;
      const at::Tensor q = at::ones({queries.num_frames(), width}, options);
      const at::Tensor kv = at::ones({keys.num_frames(), 2 * width}, options);
      const Attention::Options how{.num_heads = heads.number};
      const auto result = Attention::forward_cross({.q = q, .kv = kv}, packs, how);
      Attention::backward_cross(
          {.dy = q, .q = q, .kv = kv, .y = result.y, .softmax = result.softmax}, packs, how);
      expect_tight(arena->report(), "cross " + std::to_string(heads.size) +
                                        (has_few_queries ? " few queries" : " many queries"));
    }
  }
}

TEST_P(LibraryBounds, HoldForProducts) {
  SOTTO_SKIP_WITHOUT_GPU();
  const at::ScalarType type = GetParam();
  const auto arena = std::make_shared<Arena>(RegionKind::kCuda, 2048 * kMiB);
  const ArenaGuard guard(at::kCUDA, arena);
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
  for (const int64_t rows : {1, 7, 500, 20'000}) {
    const at::Tensor x = at::ones({rows, 1024}, options);
    const at::Tensor weight = at::ones({3072, 1024}, options);
    const at::Tensor bias = at::ones({3072}, options.dtype(at::kFloat));
    at::Tensor gradient = at::zeros({3072, 1024}, options.dtype(at::kFloat));
    const at::Tensor y =
        kernels::Gemm::multiply({.a = x, .b = weight, .transpose_b = true, .bias = &bias});
    kernels::Gemm::multiply({.a = y, .b = weight});
    kernels::Gemm::accumulate(gradient, {.a = y, .b = x, .transpose_a = true});
    kernels::Gemm::multiply_to_float({.a = x, .b = weight, .transpose_b = true});
  }
  expect_tight(arena->report(), "products");
}

INSTANTIATE_TEST_SUITE_P(Types, LibraryBounds,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

}  // namespace
}  // namespace sotto::test
