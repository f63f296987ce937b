#include "sotto/kernels/elementwise/glu.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd_math.h"

namespace sotto::kernels::detail {

using simd::Lanes;

void glu_forward_cpu(const at::Tensor& x, const at::Tensor& y) {
  const int64_t width = y.size(1);
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    parallel_rows(y.size(0), width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* a = x.const_data_ptr<T>() + row * 2 * width;
        const T* b = a + width;
        T* to = y.mutable_data_ptr<T>() + row * width;
        simd::for_each_block(width, [&](int64_t i, auto n) {
          simd::store(to + i, simd::load(a + i, n) * simd::sigmoid(simd::load(b + i, n)), n);
        });
      }
    });
  });
}

void glu_backward_cpu(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx) {
  const int64_t width = dy.size(1);
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    parallel_rows(dy.size(0), width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* a = x.const_data_ptr<T>() + row * 2 * width;
        const T* b = a + width;
        const T* gradient = dy.const_data_ptr<T>() + row * width;
        T* da = dx.mutable_data_ptr<T>() + row * 2 * width;
        T* db = da + width;
        simd::for_each_block(width, [&](int64_t i, auto n) {
          const Lanes g = simd::load(gradient + i, n);
          const Lanes gate = simd::sigmoid(simd::load(b + i, n));
          simd::store(da + i, g * gate, n);
          simd::store(db + i, g * simd::load(a + i, n) * gate * (1.0f - gate), n);
        });
      }
    });
  });
}

}  // namespace sotto::kernels::detail
