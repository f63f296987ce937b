#include <ATen/ATen.h>

#include <algorithm>

#include "sotto/kernels/cpu_kernel.h"
#include "sotto/kernels/gemm.h"
#include "sotto/kernels/gemm_operands.h"
#include "sotto/kernels/simd.h"

namespace sotto::kernels::detail {

// A loop rather than ATen's copy, whose set-up would cost as much as a small product.
void gemm_convert_bias_cpu(const at::Tensor& bias, const at::Tensor& converted) {
  with_element_type(bias, [&](auto from_type) {
    with_element_type(converted, [&](auto to_type) {
      const auto* from = bias.const_data_ptr<decltype(from_type)>();
      auto* to = converted.mutable_data_ptr<decltype(to_type)>();
      simd::for_each_block(bias.size(0), [&](int64_t i, auto n) {
        simd::store(to + i, simd::load(from + i, n), n);
      });
    });
  });
}

void gemm_accumulate_mixed_cpu(at::Tensor& sum, const Gemm::Operands& operands,
                               const at::Tensor& a_rows, const at::Tensor& b_rows) {
  const at::Tensor a = a_of(operands).t();  // [K, M]
  const at::Tensor b = b_of(operands);      // [K, N]
  for (int64_t first = 0; first < a.size(0); first += Gemm::kInnerRowsAtOnce) {
    const int64_t count = std::min(Gemm::kInnerRowsAtOnce, a.size(0) - first);
    const at::Tensor a_now = a_rows.narrow(0, 0, count);
    const at::Tensor b_now = b_rows.narrow(0, 0, count);
    a_now.copy_(a.narrow(0, first, count));
    b_now.copy_(b.narrow(0, first, count));
    at::addmm_out(sum, sum, a_now.t(), b_now);
  }
}

}  // namespace sotto::kernels::detail
