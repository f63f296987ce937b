#include <limits>

#include "sotto/kernels/cpu_kernel.h"
#include "sotto/kernels/simd_math.h"
#include "sotto/kernels/softmax.h"

namespace sotto::kernels::detail {

using simd::Lanes;

namespace {

template <class T>
float largest_of(const T* x, int64_t width) {
  Lanes largest = -std::numeric_limits<float>::infinity();
  float tail = -std::numeric_limits<float>::infinity();
  const int64_t whole = width / simd::kLanes * simd::kLanes;
  for (int64_t i = 0; i < whole; i += simd::kLanes)
    largest = simd::max(largest, simd::load(x + i, simd::Full{}));
  for (int64_t i = whole; i < width; ++i) tail = std::max(tail, static_cast<float>(x[i]));
  return std::max(tail, simd::max(largest));
}

}  // namespace

void softmax_forward_cpu(const at::Tensor& x, const at::Tensor& y) {
  const int64_t width = x.size(1);
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    parallel_rows(x.size(0), width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x.const_data_ptr<T>() + row * width;
        T* to = y.mutable_data_ptr<T>() + row * width;
        const float largest = largest_of(from, width);
        Lanes sums = {};
        simd::for_each_block(width, [&](int64_t i, auto n) {
          sums += simd::masked(simd::exp_of_negative(simd::load(from + i, n) - largest), n);
        });
        const float scale = 1.0f / simd::sum(sums);
        // The exponential again rather than a rounded intermediate: in 16 bits the row then still
        // sums to one.
        simd::for_each_block(width, [&](int64_t i, auto n) {
          simd::store(to + i, simd::exp_of_negative(simd::load(from + i, n) - largest) * scale, n);
        });
      }
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
        Lanes sums = {};
        simd::for_each_block(width, [&](int64_t i, auto n) {
          sums += simd::load(probability + i, n) * simd::load(gradient + i, n);
        });
        const float mean = simd::sum(sums);
        simd::for_each_block(width, [&](int64_t i, auto n) {
          simd::store(to + i, simd::load(probability + i, n) * (simd::load(gradient + i, n) - mean),
                      n);
        });
      }
    });
  });
}

}  // namespace sotto::kernels::detail
