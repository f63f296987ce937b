// The products of the CPU, whatever its instructions.
#include "sotto/kernels/product/gemm.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/device/target.h"
#include "sotto/kernels/product/gemm_operands.h"
#include "support/thrown.h"

namespace sotto::kernels {
namespace detail {
void gemm_onednn_cpu(at::Tensor& result, const Gemm::Operands& operands, float beta);
}

namespace gemm_test {

using device::CpuFeatures;

at::Tensor values(at::IntArrayRef sizes, at::ScalarType type, uint64_t seed) {
  at::manual_seed(seed);
  return at::randn(sizes, at::kDouble).to(type);
}

// Relative to the largest value: an 8-bit significand rounds by 1 / 256, one of 11 bits by 1 /
// 2048.
double tolerance_of(at::ScalarType type) {
  if (type == at::kFloat) return 1e-5;
  return type == at::kHalf ? 1e-3 : 8e-3;
}

void expect_near(const at::Tensor& ours, const at::Tensor& truth, double tolerance) {
  const double error =
      ((ours.to(at::kDouble) - truth).abs().max() / truth.abs().max()).item<double>();
  EXPECT_LT(error, tolerance);
}

// More rows and inner rows than a block has, and all that a layer asks for.
void expect_products(at::ScalarType type) {
  const int64_t m = Gemm::kBlockRows + 37, n = 45, k = Gemm::kInnerRowsAtOnce + 61;
  const at::Tensor a = values({m, k}, type, 1), b = values({k, n}, type, 2);
  const at::Tensor a_t = a.t().contiguous(), b_t = b.t().contiguous();
  const at::Tensor bias = values({n}, at::kFloat, 3);
  const at::Tensor truth = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  const double tolerance = tolerance_of(type);
  expect_near(Gemm::multiply({.a = a, .b = b}), truth, tolerance);
  expect_near(Gemm::multiply({.a = a, .b = b_t, .transpose_b = true, .bias = &bias}), truth + bias,
              tolerance);
  expect_near(Gemm::multiply({.a = a_t, .b = b, .transpose_a = true}), truth, tolerance);
  expect_near(Gemm::multiply_to_float({.a = a, .b = b_t, .transpose_b = true, .bias = &bias}),
              truth + bias, 1e-5);
  at::Tensor sum = values({m, n}, type, 4);
  const at::Tensor before = sum.to(at::kDouble);
  Gemm::accumulate(sum, {.a = a_t, .b = b, .transpose_a = true});
  expect_near(sum, truth + before, tolerance);
  at::Tensor float_sum = before.to(at::kFloat);
  Gemm::accumulate(float_sum, {.a = a_t, .b = b, .transpose_a = true});
  expect_near(float_sum, truth + before, 1e-5);
}

TEST(CpuProducts, AreCorrectWithAndWithoutNativeInstructions) {
  for (const CpuFeatures& cpu : {device::cpu_features(), CpuFeatures{}}) {
    const device::TargetScope target({.cpu = cpu});
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(fmt::format("{}, bf16 {}", c10::toString(type), cpu.bf16));
      expect_products(type);
    }
  }
}

TEST(CpuProducts, AreChosenByCpuFeatures) {
  using detail::CpuProduct;
  const auto choose = [](at::ScalarType type, int64_t size, const CpuFeatures& cpu) {
    const at::Tensor x = at::empty({size, size}, type);
    return detail::choose_cpu_product({.a = x, .b = x}, {size, size, size}, cpu);
  };
  const CpuFeatures with{.bf16 = true}, without{};
  EXPECT_EQ(choose(at::kBFloat16, 64, with), CpuProduct::kOneDnn);
  EXPECT_EQ(choose(at::kBFloat16, 64, without), CpuProduct::kConverted);
  EXPECT_EQ(choose(at::kBFloat16, 8, with), CpuProduct::kConverted);
  EXPECT_EQ(choose(at::kHalf, 64, with), CpuProduct::kConverted);
  EXPECT_EQ(choose(at::kFloat, 64, with), CpuProduct::kBlas);
}

// After a failure ATen would warn, disable oneDNN for the process and continue with BLAS, with
// different bits.
TEST(CpuProducts, DisableOneDnnInAten) {
  const at::Tensor x = values({64, 64}, at::kFloat, 1);
  Gemm::multiply({.a = x, .b = x});
  EXPECT_FALSE(at::globalContext().userEnabledMkldnn());
}

TEST(CpuProducts, FailureInsideIsOutOfMemory) {
  const at::Tensor x = values({64, 64}, at::kFloat, 1);
  at::Tensor result = at::empty({64, 64}, at::kDouble);
  const std::string message = test::message_of<OutOfMemory>(
      [&] { detail::gemm_onednn_cpu(result, {.a = x, .b = x}, 0.0f); });
  EXPECT_PRED2(test::contains, message, "multiplying [64, 64] by [64, 64]");
  EXPECT_EQ(message.find("frame #"), std::string::npos) << message;
}

}  // namespace gemm_test
}  // namespace sotto::kernels
