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
  const float total =
      simd::sum_of_blocks(width, [&](int64_t i, auto n) { return simd::load(x + i, n); });
  const float mean = total / static_cast<float>(width);
  // Two passes: the one-pass formula loses the variance of a row with a large mean.
  const float squares = simd::sum_of_blocks(width, [&](int64_t i, auto n) {
    const Lanes centred = simd::masked(simd::load(x + i, n) - mean, n);
    return centred * centred;
  });
  const float variance = squares / static_cast<float>(width);
  return {.mean = mean, .rstd = 1.0f / std::sqrt(variance + static_cast<float>(epsilon))};
}

// Neighbouring rows of backward. Passed by value: through a reference the compiler would read it
// again after each store.
template <class T>
struct BackwardRows {
  const T* dy;
  const T* x;
  T* dx;
  const float* gamma;
  const float* mean;
  const float* rstd;
  int64_t width;
  int64_t ahead;  // elements to the rows that come next, to be fetched meanwhile
};

template <class T>
void write_dx(BackwardRows<T> in, float mean_g, float mean_gx) {
  const Moments moments{.mean = *in.mean, .rstd = *in.rstd};
  simd::for_each_block(in.width, [&](int64_t i, auto n) {
    simd::prefetch(in.dy + in.ahead + i);
    simd::prefetch(in.x + in.ahead + i);
    const Lanes g = simd::load(in.dy + i, n) * simd::load(in.gamma + i, n);
    const Lanes x_hat = (simd::load(in.x + i, n) - moments.mean) * moments.rstd;
    simd::store(in.dx + i, (g - mean_g - x_hat * mean_gx) * moments.rstd, n);
  });
}

// dx of kRows rows, and their share of the parameters' gradients added to two rows of partial sums:
// several rows at once because those sums are then read and written once for all.
template <int kRows, class T>
void backward_rows(BackwardRows<T> in, float* gamma_sum, float* beta_sum) {
  Moments moments[kRows];
  for (int row = 0; row < kRows; ++row) moments[row] = {in.mean[row], in.rstd[row]};
  Lanes sum_g[kRows];
  Lanes sum_gx[kRows];
  simd::for_each_block(in.width, [&](int64_t i, auto n) {
    const Lanes gamma = simd::load(in.gamma + i, n);
    Lanes gamma_part = simd::load(gamma_sum + i, n);
    Lanes beta_part = simd::load(beta_sum + i, n);
#pragma GCC unroll 2
    for (int row = 0; row < kRows; ++row) {
      // Zeros in the tail, and so is all that follows from it.
      const Lanes dy = simd::load(in.dy + row * in.width + i, n);
      const Lanes x = simd::load(in.x + row * in.width + i, n);
      const Lanes x_hat = (x - moments[row].mean) * moments[row].rstd;
      sum_g[row] += dy * gamma;
      sum_gx[row] += dy * gamma * x_hat;
      gamma_part += dy * x_hat;
      beta_part += dy;
    }
    simd::store(gamma_sum + i, gamma_part, n);
    simd::store(beta_sum + i, beta_part, n);
  });
  const auto width = static_cast<float>(in.width);
  for (int row = 0; row < kRows; ++row) {
    write_dx(in, simd::sum(sum_g[row]) / width, simd::sum(sum_gx[row]) / width);
    in.dy += in.width;
    in.x += in.width;
    in.dx += in.width;
    ++in.mean;
    ++in.rstd;
  }
}

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
        const T* next = row + 1 < end ? from + width : from;
        simd::for_each_block(width, [&](int64_t i, auto n) {
          simd::prefetch(next + i);
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
      int64_t row = begin;
      const auto rows = [&](int64_t count) {
        const bool is_last = row + 2 * count > end;
        return BackwardRows<T>{.dy = dy + row * width,
                               .x = x + row * width,
                               .dx = out + row * width,
                               .gamma = gamma,
                               .mean = means + row,
                               .rstd = rstds + row,
                               .width = width,
                               .ahead = is_last ? 0 : count * width};
      };
      for (; row + 2 <= end; row += 2) backward_rows<2>(rows(2), gamma_sum, beta_sum);
      if (row < end) backward_rows<1>(rows(1), gamma_sum, beta_sum);
    });
  });
  add_slabs(sums,
            {gradients.gamma.mutable_data_ptr<float>(), gradients.beta.mutable_data_ptr<float>()},
            num_row_slabs(in.x.size(0)), width);
}

}  // namespace detail

}  // namespace sotto::kernels
