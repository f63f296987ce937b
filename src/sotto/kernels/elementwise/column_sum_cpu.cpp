#include "sotto/kernels/elementwise/column_sum.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

void column_sum_cpu(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& partial) {
  const int64_t width = x.size(1);
  float* sums = partial.mutable_data_ptr<float>();
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.const_data_ptr<T>();
    parallel_slabs(x.size(0), [&](int64_t slab, int64_t begin, int64_t end) {
      float* to = sums + slab * width;
      std::fill_n(to, width, 0.0f);
      for (int64_t row = begin; row < end; ++row) {
        const T* from = in + row * width;
        simd::for_each_block(width, [&](int64_t i, auto n) {
          simd::store(to + i, simd::load(to + i, n) + simd::load(from + i, n), n);
        });
      }
    });
  });
  add_slabs(sums, {sum.mutable_data_ptr<float>()}, num_row_slabs(x.size(0)), width);
}

}  // namespace sotto::kernels::detail
