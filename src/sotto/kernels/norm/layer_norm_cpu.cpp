#include <cmath>

#include "sotto/kernels/norm/layer_norm.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels {

namespace {

using simd::Lanes;

struct Statistics {
  float mean;
  float rstd;
};

// Adjacent rows of forward. Passed by value: through a reference the compiler would read it again
// after each store.
template <class T>
struct ForwardRows {
  const T* x;
  T* y;
  float* mean;
  float* rstd;
  const float* gamma;
  const float* beta;
  int64_t width;
  float epsilon;
  int64_t ahead;  // distance in elements to the rows to prefetch
};

// Processes several rows at once, so that their sums are independent. The result of a row does not
// depend on their number.
template <int kRows, class T>
void forward_rows(ForwardRows<T> in) {
  const auto width = static_cast<float>(in.width);
  Statistics statistics[kRows];
  Lanes sums[kRows];
  simd::for_each_block(in.width, [&](int64_t i, auto n) {
    for (int row = 0; row < kRows; ++row) sums[row] += simd::load(in.x + row * in.width + i, n);
  });
  for (int row = 0; row < kRows; ++row) statistics[row].mean = simd::sum(sums[row]) / width;
  // Two passes: the one-pass formula loses the variance of a row with a large mean.
  Lanes squares[kRows];
  simd::for_each_block(in.width, [&](int64_t i, auto n) {
    for (int row = 0; row < kRows; ++row) {
      const Lanes x = simd::load(in.x + row * in.width + i, n);
      const Lanes centred = simd::masked(x - statistics[row].mean, n);
      squares[row] += centred * centred;
    }
  });
  for (int row = 0; row < kRows; ++row) {
    const float variance = simd::sum(squares[row]) / width;
    statistics[row].rstd = 1.0f / std::sqrt(variance + in.epsilon);
    in.mean[row] = statistics[row].mean;
    in.rstd[row] = statistics[row].rstd;
  }
  simd::for_each_block(in.width, [&](int64_t i, auto n) {
    const Lanes gamma = simd::load(in.gamma + i, n);
    const Lanes beta = simd::load(in.beta + i, n);
    for (int row = 0; row < kRows; ++row) {
      const int64_t at = row * in.width + i;
      simd::prefetch(in.x + at + in.ahead);
      const Lanes x_hat = (simd::load(in.x + at, n) - statistics[row].mean) * statistics[row].rstd;
      simd::store(in.y + at, x_hat * gamma + beta, n);
    }
  });
}

template <class T>
struct BackwardRow {
  const T* dy;
  const T* x;
  const T* residual;  // or null
  T* dx;
  const float* gamma;
  Statistics statistics;
  int64_t width;
  int64_t ahead;
};

// Computes dx of a row, and adds its share of the parameters' gradients to two rows of partial
// sums. One row at a time, unlike forward: two would need more registers than there are.
template <bool kHasResidual, class T>
void backward_row(BackwardRow<T> in, float* gamma_sum, float* beta_sum) {
  const auto normalised = [&](int64_t i, auto n) {
    return (simd::load(in.x + i, n) - in.statistics.mean) * in.statistics.rstd;
  };
  Lanes sum_g;
  Lanes sum_gx;
  simd::for_each_block(in.width, [&](int64_t i, auto n) {
    // Zero in the tail, like all values derived from it.
    const Lanes dy = simd::load(in.dy + i, n);
    const Lanes x_hat = normalised(i, n);
    const Lanes g = dy * simd::load(in.gamma + i, n);
    sum_g += g;
    sum_gx += g * x_hat;
    simd::store(gamma_sum + i, simd::load(gamma_sum + i, n) + dy * x_hat, n);
    simd::store(beta_sum + i, simd::load(beta_sum + i, n) + dy, n);
  });
  const float mean_g = simd::sum(sum_g) / static_cast<float>(in.width);
  const float mean_gx = simd::sum(sum_gx) / static_cast<float>(in.width);
  simd::for_each_block(in.width, [&](int64_t i, auto n) {
    simd::prefetch(in.dy + in.ahead + i);
    simd::prefetch(in.x + in.ahead + i);
    const Lanes g = simd::load(in.dy + i, n) * simd::load(in.gamma + i, n);
    Lanes dx = (g - mean_g - normalised(i, n) * mean_gx) * in.statistics.rstd;
    if constexpr (kHasResidual) dx += simd::load(in.residual + i, n);
    simd::store(in.dx + i, dx, n);
  });
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
      int64_t row = begin;
      const auto rows = [&](int64_t count) {
        return ForwardRows<T>{.x = in + row * width,
                              .y = out + row * width,
                              .mean = means + row,
                              .rstd = rstds + row,
                              .gamma = gamma,
                              .beta = beta,
                              .width = width,
                              .epsilon = static_cast<float>(parameters.epsilon),
                              .ahead = row + 2 * count > end ? 0 : count * width};
      };
      for (; row + 2 <= end; row += 2) forward_rows<2>(rows(2));
      if (row < end) forward_rows<1>(rows(1));
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
    const T* residual = in.residual == nullptr ? nullptr : in.residual->const_data_ptr<T>();
    T* out = dx.mutable_data_ptr<T>();
    parallel_slabs(in.x.size(0), [&](int64_t slab, int64_t begin, int64_t end) {
      float* gamma_sum = sums + slab * 2 * width;
      float* beta_sum = gamma_sum + width;
      std::fill_n(gamma_sum, 2 * width, 0.0f);
      for (int64_t row = begin; row < end; ++row) {
        const BackwardRow<T> work{
            .dy = dy + row * width,
            .x = x + row * width,
            .residual = residual == nullptr ? nullptr : residual + row * width,
            .dx = out + row * width,
            .gamma = gamma,
            .statistics = {.mean = means[row], .rstd = rstds[row]},
            .width = width,
            .ahead = row + 1 < end ? width : 0};
        if (residual == nullptr) {
          backward_row<false>(work, gamma_sum, beta_sum);
        } else {
          backward_row<true>(work, gamma_sum, beta_sum);
        }
      }
    });
  });
  add_slabs(sums,
            {gradients.gamma.mutable_data_ptr<float>(), gradients.beta.mutable_data_ptr<float>()},
            num_row_slabs(in.x.size(0)), width);
}

}  // namespace detail

}  // namespace sotto::kernels
