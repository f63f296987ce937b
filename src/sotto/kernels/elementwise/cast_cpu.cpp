#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

namespace {

template <bool kAdds>
void cast(const at::Tensor& x, const at::Tensor& y) {
  with_element_type(x, [&](auto from_zero) {
    with_element_type(y, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      const From* from = x.const_data_ptr<From>();
      To* to = y.mutable_data_ptr<To>();
      parallel_rows(x.numel(), 1, [&](int64_t begin, int64_t end) {
        simd::for_each_block(end - begin, [&](int64_t i, auto n) {
          simd::Lanes value = simd::load(from + begin + i, n);
          if constexpr (kAdds) value += simd::load(to + begin + i, n);
          simd::store(to + begin + i, value, n);
        });
      });
    });
  });
}

}  // namespace

void cast_cpu(const at::Tensor& x, const at::Tensor& y) {
  cast<false>(x, y);
}

void cast_add_cpu(const at::Tensor& x, const at::Tensor& sum) {
  cast<true>(x, sum);
}

}  // namespace sotto::kernels::detail
