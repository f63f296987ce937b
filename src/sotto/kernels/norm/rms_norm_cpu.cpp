#include <cmath>

#include "sotto/kernels/norm/rms_norm.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

using simd::Lanes;

void rms_norm_forward_cpu(const at::Tensor& x, const at::Tensor& gamma, double epsilon,
                          const RmsNorm::Result& result) {
  const int64_t width = x.size(1);
  const float* scale = gamma.const_data_ptr<float>();
  float* rstds = result.rstd.mutable_data_ptr<float>();
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.const_data_ptr<T>();
    T* out = result.y.mutable_data_ptr<T>();
    parallel_rows(x.size(0), width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = in + row * width;
        T* to = out + row * width;
        Lanes squares = {};
        simd::for_each_block(width, [&](int64_t i, auto n) {
          const Lanes value = simd::load(from + i, n);
          squares += value * value;
        });
        const float mean_square = simd::sum(squares) / static_cast<float>(width);
        const float rstd = 1.0f / std::sqrt(mean_square + static_cast<float>(epsilon));
        rstds[row] = rstd;
        simd::for_each_block(width, [&](int64_t i, auto n) {
          simd::store(to + i, simd::load(from + i, n) * rstd * simd::load(scale + i, n), n);
        });
      }
    });
  });
}

void rms_norm_backward_cpu(const RmsNorm::BackwardInputs& in, const at::Tensor& grad_gamma,
                           const at::Tensor& dx, const at::Tensor& partial) {
  const int64_t width = in.x.size(1);
  const float* gamma = in.gamma.const_data_ptr<float>();
  const float* rstds = in.rstd.const_data_ptr<float>();
  float* sums = partial.mutable_data_ptr<float>();
  with_element_type(in.x, [&](auto zero) {
    using T = decltype(zero);
    const T* residual = in.residual == nullptr ? nullptr : in.residual->const_data_ptr<T>();
    parallel_slabs(in.x.size(0), [&](int64_t slab, int64_t begin, int64_t end) {
      float* gamma_sum = sums + slab * width;
      std::fill_n(gamma_sum, width, 0.0f);
      for (int64_t row = begin; row < end; ++row) {
        const T* x = in.x.const_data_ptr<T>() + row * width;
        const T* dy = in.dy.const_data_ptr<T>() + row * width;
        T* out = dx.mutable_data_ptr<T>() + row * width;
        const float rstd = rstds[row];
        Lanes sum_gx = {};
        simd::for_each_block(width, [&](int64_t i, auto n) {
          const Lanes dy_x_hat = simd::load(dy + i, n) * (simd::load(x + i, n) * rstd);
          sum_gx += dy_x_hat * simd::load(gamma + i, n);
          simd::store(gamma_sum + i, simd::load(gamma_sum + i, n) + dy_x_hat, n);
        });
        const float mean_gx = simd::sum(sum_gx) / static_cast<float>(width);
        simd::for_each_block(width, [&](int64_t i, auto n) {
          const Lanes g = simd::load(dy + i, n) * simd::load(gamma + i, n);
          Lanes value = (g - simd::load(x + i, n) * (rstd * mean_gx)) * rstd;
          if (residual != nullptr) value += simd::load(residual + row * width + i, n);
          simd::store(out + i, value, n);
        });
      }
    });
  });
  add_slabs(sums, {grad_gamma.mutable_data_ptr<float>()}, num_row_slabs(in.x.size(0)), width);
}

}  // namespace sotto::kernels::detail
