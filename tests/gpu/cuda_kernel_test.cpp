// Every kernel of the table that has a CUDA version: against the CPU's in the same type.
#include <gtest/gtest.h>

#include <set>

#include "support/gpu.h"
#include "support/kernel_cases.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace {

class CudaKernels : public ::testing::TestWithParam<std::tuple<KernelCase, at::ScalarType>> {};

void expect_agreement(const KernelCase& row, at::ScalarType type, const Shape& shape) {
  const std::vector<Input> inputs = row.make_inputs(shape);
  const Tensors on_cpu = row.run(materialise(inputs, type, at::kCPU),
                                 kernels::Packing(lengths_for(shape.rows), at::kCPU));
  const Tensors on_gpu = row.run(materialise(inputs, type, at::kCUDA),
                                 kernels::Packing(lengths_for(shape.rows), at::kCUDA));
  for (size_t i = 0; i < on_cpu.size(); ++i) {
    EXPECT_LE(relative_error(on_gpu[i], on_cpu[i]), cuda_tolerance(type))
        << row.kernel << " result " << i << " at [" << shape.rows << ", " << shape.width << "]";
  }
}

TEST_P(CudaKernels, AgreeWithTheCpu) {
  const auto& [row, type] = GetParam();
  SOTTO_SKIP_WITHOUT_GPU();
  for (const Shape& shape : kernel_shapes()) expect_agreement(row, type, shape);
}

// Rows of real widths, and such that no block holds in its registers, with and without vectors.
TEST_P(CudaKernels, AgreeWithTheCpuOnWideRows) {
  const auto& [row, type] = GetParam();
  static const std::set<std::string> kNames = {
      "ColumnSum", "Dropout",     "Embedding", "FrameWindows", "Gelu",
      "Glu",       "GroupNorm",   "LayerNorm", "PositionAdd",  "ResidualAdd",
      "RmsNorm",   "SinusoidAdd", "Softmax"};
  if (!kNames.contains(row.kernel)) return;
  SOTTO_SKIP_WITHOUT_GPU();
  for (const Shape& shape : {Shape{700, 512}, Shape{70, 1024}, Shape{40, 5120}, Shape{33, 1283},
                             Shape{3, 20'008}, Shape{3, 20'011}})
    expect_agreement(row, type, shape);
}

// Features are of fp32 in every run: TF32, where it is allowed, does not reach them.
TEST(CudaLogMel, IsOfWholeProducts) {
  SOTTO_SKIP_WITHOUT_GPU();
  for (const KernelCase& row : cuda_kernel_cases()) {
    if (row.kernel != "LogMel") continue;
    at::globalContext().setAllowTF32CuBLAS(true);
    expect_agreement(row, at::kFloat, {.rows = 1030, .width = 33});
    EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
    at::globalContext().setAllowTF32CuBLAS(false);
  }
}

std::string name_of_case(const ::testing::TestParamInfo<CudaKernels::ParamType>& info) {
  return std::get<0>(info.param).kernel + "_" + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Table, CudaKernels,
                         ::testing::Combine(::testing::ValuesIn(cuda_kernel_cases()),
                                            ::testing::Values(at::kFloat, at::kBFloat16,
                                                              at::kHalf)),
                         name_of_case);

}  // namespace
}  // namespace sotto::test
