// Every kernel of the table: values against double precision, gradients against autograd.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <set>

#include "support/kernel_cases.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace kernel_value_test {

class KernelValues : public ::testing::TestWithParam<std::tuple<KernelCase, at::ScalarType>> {};

TEST_P(KernelValues, AgreeWithDoublePrecision) {
  const auto& [row, type] = GetParam();
  for (const Shape& shape : kernel_shapes()) {
    const std::vector<Input> inputs = row.make_inputs(shape);
    const kernels::Packing packing(lengths_for(shape.rows), at::kCPU);
    const Tensors ours = row.run(materialise(inputs, type, at::kCPU), packing);
    const Tensors truth = row.reference(materialise_reference(inputs, type), packing);
    ASSERT_EQ(ours.size(), truth.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_LE(relative_error(ours[i], truth[i]), kernel_tolerance(type))
          << row.kernel << " result " << i << " at [" << shape.rows << ", " << shape.width << "]";
    }
  }
}

// The result must not depend on the number of cores, except for the rounding of library products,
// which do not guarantee it; cross_entropy_test.cpp has a case with exact products.
TEST_P(KernelValues, AreTheSameOnAnyNumberOfCores) {
  const auto& [row, type] = GetParam();
  static const std::set<std::string> kWithProducts = {
      "Convolution",        "CrossEntropy", "CrossEntropyWhole", "Gemm",
      "GroupedConvolution", "LogMel",       "LogMelKaldi",       "LogMelNemo",
      "LogMelWhisper",      "Lstm",         "Transducer",        "TransducerDurations"};
  const Shape shape{.rows = 1030, .width = 33};
  const Tensors inputs = materialise(row.make_inputs(shape), type, at::kCPU);
  const kernels::Packing packing(lengths_for(shape.rows), at::kCPU);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Tensors on_one = row.run(inputs, packing);
  at::set_num_threads(3);
  const Tensors on_three = row.run(inputs, packing);
  at::set_num_threads(before);
  ASSERT_EQ(on_one.size(), on_three.size());
  for (size_t i = 0; i < on_one.size(); ++i) {
    if (kWithProducts.contains(row.kernel)) {
      EXPECT_LE(relative_error(on_three[i], on_one[i]), kernel_tolerance(type)) << row.kernel;
    } else {
      EXPECT_TRUE(at::equal(on_one[i], on_three[i])) << row.kernel;
    }
  }
}

std::string name_of_case(const ::testing::TestParamInfo<KernelValues::ParamType>& info) {
  return std::get<0>(info.param).kernel + "_" + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Table, KernelValues,
                         ::testing::Combine(::testing::ValuesIn(kernel_cases()),
                                            ::testing::Values(at::kFloat, at::kBFloat16,
                                                              at::kHalf)),
                         name_of_case);

}  // namespace kernel_value_test
}  // namespace sotto::test
