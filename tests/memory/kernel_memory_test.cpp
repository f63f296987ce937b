// Every kernel of the table: the dry run takes the same bytes at the same places as the real one,
// and library calls stay within what is declared for them.
#include <gtest/gtest.h>

#include "sotto/device/torch_memory.h"
#include "sotto/kernels/base/cost.h"
#include "sotto/kernels/loss/ctc.h"
#include "sotto/kernels/product/gemm.h"
#include "support/kernel_cases.h"

namespace sotto::test {
namespace kernel_memory_test {

struct Observed {
  device::MemoryReport memory;
  kernels::Cost cost;
};

Observed observe(const KernelCase& row, const Shape& shape, at::ScalarType type,
                 at::DeviceType device) {
  const std::vector<Input> inputs = row.make_inputs(shape);
  const bool dry = device == at::kMeta;
  const auto arena = std::make_shared<device::Arena>(
      dry ? device::RegionKind::kNothing : device::RegionKind::kHost,
      dry ? device::Arena::kUnlimited : 64 << 20);
  const device::ArenaGuard guard(device, arena);
  const kernels::CostRecorder recorder;
  {
    const kernels::Packing packing(lengths_for(shape.rows), device);
    row.run(materialise(inputs, type, device), packing);
  }
  EXPECT_EQ(arena->num_blocks(), 0) << row.kernel << " left blocks behind";
  return {arena->report(), recorder.total().total};
}

class KernelMemory : public ::testing::TestWithParam<std::tuple<KernelCase, at::ScalarType>> {};

TEST_P(KernelMemory, DryEqualsMeasured) {
  const auto& [row, type] = GetParam();
  for (const Shape& shape : kernel_shapes()) {
    const Observed dry = observe(row, shape, type, at::kMeta);
    const Observed real = observe(row, shape, type, at::kCPU);
    EXPECT_EQ(dry.memory.peak, real.memory.peak) << row.kernel;
    EXPECT_EQ(dry.memory.high_water, real.memory.high_water) << row.kernel;
    EXPECT_EQ(dry.memory.at_peak, real.memory.at_peak) << row.kernel;
    EXPECT_EQ(dry.memory.num_reservations, real.memory.num_reservations) << row.kernel;
    EXPECT_GT(real.memory.peak, 0);
    for (const device::LibraryUse& use : real.memory.library_calls) {
      EXPECT_EQ(use.num_breaches, 0)
          << use.name << " declared " << use.declared_bytes << " measured " << use.measured_bytes
          << " at [" << shape.rows << ", " << shape.width << "]";
    }
    EXPECT_EQ(dry.cost.flops, real.cost.flops);
    EXPECT_EQ(dry.cost.bytes, real.cost.bytes);
    EXPECT_GT(real.cost.bytes, 0);
  }
}

std::string name_of_case(const ::testing::TestParamInfo<KernelMemory::ParamType>& info) {
  return std::get<0>(info.param).kernel + "_" + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Table, KernelMemory,
                         ::testing::Combine(::testing::ValuesIn(kernel_cases()),
                                            ::testing::Values(at::kFloat, at::kBFloat16,
                                                              at::kHalf)),
                         name_of_case);

// CTC of a long utterance stores neither its probabilities nor all of its states.
TEST(CtcMemory, WorkspaceGrowsWithTheSquareRootOfTheFrames) {
  const int64_t frames = 3'000, labels = 500, vocabulary = 4'000;
  const auto workspace_bytes = [&](bool with_gradient) {
    const auto arena =
        std::make_shared<device::Arena>(device::RegionKind::kNothing, device::Arena::kUnlimited);
    const device::ArenaGuard guard(at::kMeta, arena);
    const kernels::Packing packing({frames}, at::kMeta);
    const kernels::Labels of_pack({std::vector<int32_t>(labels, 1)}, at::kMeta);
    const kernels::Ctc::Targets targets{.packing = packing, .labels = of_pack};
    at::Tensor logits = at::empty({frames, vocabulary}, at::device(at::kMeta).dtype(at::kBFloat16));
    if (with_gradient) {
      kernels::Ctc::forward(logits, targets, std::vector<float>{1.0f});
    } else {
      kernels::Ctc::evaluate(logits, targets);
    }
    return arena->report().at_peak[static_cast<size_t>(device::Category::kWorkspace)];
  };
  const int64_t all_states_bytes = frames * (2 * labels + 1) * 4;
  EXPECT_LT(workspace_bytes(true), all_states_bytes / 12);
  EXPECT_LT(workspace_bytes(false), all_states_bytes / 100);
}

// The bound of products at the shapes of real models, every transposition, first and second call.
TEST(GemmMemory, LibraryStaysWithinItsBoundAtRealShapes) {
  struct Product {
    int64_t m, n, k;
  };
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const Product& p :
         {Product{1500, 1024, 256}, Product{1500, 256, 1024}, Product{1024, 256, 1500},
          Product{700, 3072, 1024}, Product{7, 1024, 256}, Product{33, 31, 17}, Product{1, 32, 256},
          Product{2048, 29, 512}, Product{512, 512, 3}}) {
      const auto arena = std::make_shared<device::Arena>(device::RegionKind::kHost, 512 << 20);
      const device::ArenaGuard guard(at::kCPU, arena);
      const auto options = at::TensorOptions().dtype(type);
      const at::Tensor a = at::zeros({p.m, p.k}, options), a_t = at::zeros({p.k, p.m}, options);
      const at::Tensor b = at::zeros({p.k, p.n}, options), b_t = at::zeros({p.n, p.k}, options);
      const at::Tensor bias = at::zeros({p.n});
      at::Tensor sum = at::zeros({p.m, p.n}, options);
      at::Tensor float_sum = at::zeros({p.m, p.n});
      for (int round = 0; round < 2; ++round) {
        kernels::Gemm::multiply({.a = a, .b = b, .bias = &bias});
        kernels::Gemm::multiply({.a = a, .b = b_t, .transpose_b = true});
        kernels::Gemm::multiply({.a = a_t, .b = b, .transpose_a = true});
        kernels::Gemm::multiply({.a = a_t, .b = b_t, .transpose_a = true, .transpose_b = true});
        kernels::Gemm::accumulate(sum, {.a = a_t, .b = b, .transpose_a = true});
        kernels::Gemm::accumulate(float_sum, {.a = a_t, .b = b, .transpose_a = true});
      }
      for (const device::LibraryUse& use : arena->report().library_calls) {
        EXPECT_EQ(use.num_breaches, 0)
            << c10::toString(type) << " [" << p.m << ", " << p.k << "] x [" << p.k << ", " << p.n
            << "]: declared " << use.declared_bytes << ", measured " << use.measured_bytes;
      }
    }
  }
}

}  // namespace kernel_memory_test
}  // namespace sotto::test
