#include <cmath>

#include "sotto/kernels/cpu_kernel.h"
#include "sotto/kernels/layer_norm.h"
#include "sotto/kernels/simd.h"

namespace sotto::kernels {

namespace {

using simd::Lanes;

struct Moments {
  float mean;
  float rstd;
};

template <class T>
Moments moments_of(const T* x, int64_t width, double epsilon) {
  Lanes sums = {};
  simd::for_each_block(width, [&](int64_t i, auto n) { sums += simd::load(x + i, n); });
  const float mean = simd::sum(sums) / static_cast<float>(width);
  // Two passes: the one-pass formula loses the variance of a row with a large mean.
  Lanes squares = {};
  simd::for_each_block(width, [&](int64_t i, auto n) {
    const Lanes centred = simd::masked(simd::load(x + i, n) - mean, n);
    squares += centred * centred;
  });
  const float variance = simd::sum(squares) / static_cast<float>(width);
  return {.mean = mean, .rstd = 1.0f / std::sqrt(variance + static_cast<float>(epsilon))};
}

// One row of backward: dx, and this row's share of the parameters' gradients added to two rows of
// partial sums.
template <class T>
struct BackwardRow {
  const T* dy;
  const T* x;
  const float* gamma;
  Moments moments;
  int64_t width;

  Lanes normalised(int64_t i, auto n) const {
    return (simd::load(x + i, n) - moments.mean) * moments.rstd;
  }

  void run(T* dx, float* gamma_sum, float* beta_sum) const {
    Lanes sum_g = {};
    Lanes sum_gx = {};
    simd::for_each_block(width, [&](int64_t i, auto n) {
      const Lanes dy_now =
          simd::load(dy + i, n);  // zeros in the tail, and so is all that follows from it
      const Lanes x_hat = normalised(i, n);
      const Lanes g = dy_now * simd::load(gamma + i, n);
      sum_g += g;
      sum_gx += g * x_hat;
      simd::store(gamma_sum + i, simd::load(gamma_sum + i, n) + dy_now * x_hat, n);
      simd::store(beta_sum + i, simd::load(beta_sum + i, n) + dy_now, n);
    });
    const float mean_g = simd::sum(sum_g) / static_cast<float>(width);
    const float mean_gx = simd::sum(sum_gx) / static_cast<float>(width);
    simd::for_each_block(width, [&](int64_t i, auto n) {
      const Lanes g = simd::load(dy + i, n) * simd::load(gamma + i, n);
      simd::store(dx + i, (g - mean_g - normalised(i, n) * mean_gx) * moments.rstd, n);
    });
  }
};

}  // namespace

namespace detail {

void layer_norm_forward_cpu(const at::Tensor& x, const LayerNorm::Parameters& parameters,
                            const LayerNorm::Result& result) {
  const int64_t width = x.size(1);
  const float* gamma = parameters.gamma.const_data_ptr<float>();
  const float* beta = parameters.beta.const_data_ptr<float>();
  float* means = result.mean.mutable_data_ptr<float>();
  float* rstds = result.rstd.mutable_data_ptr<float>();
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.const_data_ptr<T>();
    T* out = result.y.mutable_data_ptr<T>();
    parallel_rows(x.size(0), width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = in + row * width;
        T* to = out + row * width;
        const Moments moments = moments_of(from, width, parameters.epsilon);
        means[row] = moments.mean;
        rstds[row] = moments.rstd;
        simd::for_each_block(width, [&](int64_t i, auto n) {
          const Lanes x_hat = (simd::load(from + i, n) - moments.mean) * moments.rstd;
          simd::store(to + i, x_hat * simd::load(gamma + i, n) + simd::load(beta + i, n), n);
        });
      }
    });
  });
}

void layer_norm_backward_cpu(const LayerNorm::BackwardInputs& in,
                             const LayerNorm::Gradients& gradients, const at::Tensor& dx,
                             const at::Tensor& partial) {
  const int64_t width = in.x.size(1);
  const float* gamma = in.gamma.const_data_ptr<float>();
  const float* means = in.mean.const_data_ptr<float>();
  const float* rstds = in.rstd.const_data_ptr<float>();
  float* sums = partial.mutable_data_ptr<float>();
  with_element_type(in.x, [&](auto zero) {
    using T = decltype(zero);
    const T* x = in.x.const_data_ptr<T>();
    const T* dy = in.dy.const_data_ptr<T>();
    T* out = dx.mutable_data_ptr<T>();
    parallel_slabs(in.x.size(0), [&](int64_t slab, int64_t begin, int64_t end) {
      float* gamma_sum = sums + slab * 2 * width;
      float* beta_sum = gamma_sum + width;
      std::fill_n(gamma_sum, 2 * width, 0.0f);
      for (int64_t row = begin; row < end; ++row) {
        const BackwardRow<T> work{.dy = dy + row * width,
                                  .x = x + row * width,
                                  .gamma = gamma,
                                  .moments = {.mean = means[row], .rstd = rstds[row]},
                                  .width = width};
        work.run(out + row * width, gamma_sum, beta_sum);
      }
    });
  });
  add_slabs(sums,
            {gradients.gamma.mutable_data_ptr<float>(), gradients.beta.mutable_data_ptr<float>()},
            num_row_slabs(in.x.size(0)), width);
}

}  // namespace detail

}  // namespace sotto::kernels
