#include "sotto/kernels/elementwise/residual_add.h"

#include "sotto/kernels/simd/dropout_walk.h"

namespace sotto::kernels::detail {

void residual_add_cpu(const at::Tensor& x, const at::Tensor& residual) {
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    T* to = x.mutable_data_ptr<T>();
    const T* from = residual.const_data_ptr<T>();
    parallel_rows(x.numel(), 1, [&](int64_t begin, int64_t end) {
      simd::for_each_block(end - begin, [&](int64_t i, auto n) {
        const int64_t at = begin + i;
        simd::store(to + at, simd::load(to + at, n) + simd::load(from + at, n), n);
      });
    });
  });
}

void residual_add_dropped_cpu(const at::Tensor& x, const at::Tensor& residual,
                              const Packing& packing, const DropoutRule& rule) {
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    T* to = x.mutable_data_ptr<T>();
    const T* from = residual.const_data_ptr<T>();
    for_each_dropped(packing, x.size(1), rule, [=](int64_t at, const simd::Lanes& factors, auto n) {
      const simd::Lanes kept = simd::load(to + at, n) * factors;
      simd::store(to + at, kept + simd::load(from + at, n), n);
    });
  });
}

}  // namespace sotto::kernels::detail
