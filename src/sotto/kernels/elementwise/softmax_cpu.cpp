#include <type_traits>

#include "sotto/kernels/elementwise/softmax.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/row_largest.h"
#include "sotto/kernels/simd/simd_math.h"

namespace sotto::kernels::detail {

using simd::Lanes;

namespace {

template <class T>
void softmax_row(const T* from, T* to, int64_t width) {
  const float largest = largest_of(from, width);
  const auto value = [&](int64_t i, auto n) {
    return simd::exp_of_negative(simd::load(from + i, n) - largest);
  };
  // In fp32 the exponentials are stored in the result. In 16 bits they are recomputed instead of
  // rounded in between: the row then still sums to one.
  constexpr bool kWaits = std::is_same_v<T, float>;
  const float total = simd::sum_of_blocks(width, [&](int64_t i, auto n) {
    const Lanes now = value(i, n);
    if constexpr (kWaits) simd::store(to + i, now, n);
    return simd::masked(now, n);
  });
  const float scale = 1.0f / total;
  simd::for_each_block(width, [&](int64_t i, auto n) {
    if constexpr (kWaits) {
      simd::store(to + i, simd::load(to + i, n) * scale, n);
    } else {
      simd::store(to + i, value(i, n) * scale, n);
    }
  });
}

}  // namespace

void softmax_forward_cpu(const at::Tensor& x, const at::Tensor& y) {
  const int64_t width = x.size(1);
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.const_data_ptr<T>();
    T* out = y.mutable_data_ptr<T>();
    parallel_rows(x.size(0), width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        softmax_row(in + row * width, out + row * width, width);
    });
  });
}

void softmax_backward_cpu(const at::Tensor& dy, const at::Tensor& y, const at::Tensor& dx) {
  const int64_t width = y.size(1);
  with_element_type(y, [&](auto zero) {
    using T = decltype(zero);
    parallel_rows(y.size(0), width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* probability = y.const_data_ptr<T>() + row * width;
        const T* gradient = dy.const_data_ptr<T>() + row * width;
        T* to = dx.mutable_data_ptr<T>() + row * width;
        const float mean = simd::sum_of_blocks(width, [&](int64_t i, auto n) {
          return simd::load(probability + i, n) * simd::load(gradient + i, n);
        });
        simd::for_each_block(width, [&](int64_t i, auto n) {
          simd::store(to + i, simd::load(probability + i, n) * (simd::load(gradient + i, n) - mean),
                      n);
        });
      }
    });
  });
}

}  // namespace sotto::kernels::detail
