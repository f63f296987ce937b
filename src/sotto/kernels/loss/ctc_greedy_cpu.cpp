#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/row_largest.h"

namespace sotto::kernels::detail {

void ctc_greedy_cpu(const at::Tensor& logits, int64_t blank, const at::Tensor& best) {
  const int64_t width = logits.size(1);
  int32_t* to = best.mutable_data_ptr<int32_t>();
  with_element_type(logits, [&](auto zero) {
    using T = decltype(zero);
    const T* in = logits.const_data_ptr<T>();
    parallel_rows(logits.size(0), width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* x = in + row * width;
        const float largest = largest_of(x, width);
        int64_t i = 0;
        while (i < width && static_cast<float>(x[i]) != largest) ++i;
        to[row] = static_cast<int32_t>(i < width ? i : blank);
      }
    });
  });
}

}  // namespace sotto::kernels::detail
