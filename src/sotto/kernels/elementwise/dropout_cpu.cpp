#include "sotto/kernels/simd/dropout_walk.h"

namespace sotto::kernels::detail {

void dropout_cpu(const at::Tensor& x, const at::Tensor& y, const Packing& packing,
                 const DropoutRule& rule) {
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.const_data_ptr<T>();
    T* to = y.mutable_data_ptr<T>();
    for_each_dropped(packing, x.size(1), rule, [=](int64_t at, const simd::Lanes& factors, auto n) {
      simd::store(to + at, simd::load(from + at, n) * factors, n);
    });
  });
}

}  // namespace sotto::kernels::detail
