#include <array>
#include <cmath>

#include "sotto/kernels/norm/batch_norm.h"
#include "sotto/kernels/norm/batch_norm_arrays.h"
#include "sotto/kernels/norm/batch_norm_task.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

namespace {

using simd::Lanes;

// Rows that are processed at once, so that sums and values of channels are loaded once for them.
constexpr int64_t kRowsAtOnce = 8;

// Calls body(i, n, first, stop) for every block of channels i and every few rows of begin .. end.
template <class Body>
[[gnu::always_inline]] inline void for_each_row_block(int64_t begin, int64_t end, int64_t width,
                                                      Body body) {
  for (int64_t first = begin; first < end; first += kRowsAtOnce) {
    const int64_t stop = std::min(end, first + kRowsAtOnce);
    simd::for_each_block(width, [&](int64_t i, auto n) { body(i, n, first, stop); });
  }
}

[[gnu::always_inline]] inline void add_to_row(float* row, const Lanes& lanes, auto n) {
  simd::store(row, simd::load(row, n) + lanes, n);
}

// Computes the statistics of a slab (batch_norm_arrays.h): [3, D].
template <class T>
void sum_slab(const T* x, int64_t width, int64_t begin, int64_t end, float* sums) {
  std::fill_n(sums, kSlabStatistics * width, 0.0f);
  float* differences = sums + width;
  float* squares = differences + width;
  for_each_row_block(begin, end, width, [&](int64_t i, auto n, int64_t first, int64_t stop) {
    Lanes part;
    for (int64_t row = first; row < stop; ++row) part += simd::load(x + row * width + i, n);
    add_to_row(sums + i, part, n);
  });
  const auto rows = static_cast<float>(end - begin);
  for_each_row_block(begin, end, width, [&](int64_t i, auto n, int64_t first, int64_t stop) {
    const Lanes mean = simd::load(sums + i, n) / rows;
    Lanes part, square_part;
    for (int64_t row = first; row < stop; ++row) {
      const Lanes difference = simd::load(x + row * width + i, n) - mean;
      part += difference;
      square_part += difference * difference;
    }
    add_to_row(differences + i, part, n);
    add_to_row(squares + i, square_part, n);
  });
}

struct Moments {
  double mean;
  double square_sum;  // of distances from the mean
};

// Combines the slabs of one channel in order, in double: their means may be far from zero.
Moments combine_slabs(const float* partial, int64_t num_slabs, int64_t num_rows, int64_t width) {
  const int64_t slab_size = kSlabStatistics * width;
  const auto rows_of = [&](int64_t slab) {
    return static_cast<double>(first_row_of_slab(slab + 1, num_rows, num_slabs) -
                               first_row_of_slab(slab, num_rows, num_slabs));
  };
  const auto mean_of = [&](int64_t slab) {
    const double rows = rows_of(slab);
    const float rounded = partial[slab * slab_size] / static_cast<float>(rows);
    return static_cast<double>(rounded) + partial[slab * slab_size + width] / rows;
  };
  Moments result{.mean = 0.0, .square_sum = 0.0};
  for (int64_t slab = 0; slab < num_slabs; ++slab) result.mean += rows_of(slab) * mean_of(slab);
  result.mean /= static_cast<double>(num_rows);
  for (int64_t slab = 0; slab < num_slabs; ++slab) {
    const double rows = rows_of(slab);
    const double lost = partial[slab * slab_size + width];
    const double distance = mean_of(slab) - result.mean;
    result.square_sum +=
        partial[slab * slab_size + 2 * width] - lost * lost / rows + rows * distance * distance;
  }
  return result;
}

// Adds the statistics of one channel in `rows` rows to its stage, which counts them already.
void add_to_stage(const BatchNorm::Stage& stage, int64_t channel, const ChannelStatistics& added,
                  int64_t rows) {
  float& mean = stage.mean.mutable_data_ptr<float>()[channel];
  float& variance = stage.variance.mutable_data_ptr<float>()[channel];
  const double share = static_cast<double>(rows) / static_cast<double>(stage.rows);
  const ChannelStatistics all = combine_statistics({mean, variance}, added, share);
  mean = static_cast<float>(all.mean);
  variance = static_cast<float>(all.variance);
}

// Values of the channels as they are applied to rows.
struct ChannelMap {
  const float* mean;
  const float* variance;
  float epsilon;

  Lanes mean_at(int64_t i, auto n) const { return simd::load(mean + i, n); }
  Lanes rstd_at(int64_t i, auto n) const {
    const Lanes variances = simd::load(variance + i, n) + epsilon;
    float values[simd::kLanes];
    simd::store(values, variances, simd::Full{});
    for (float& value : values) value = 1.0f / std::sqrt(value);
    return simd::load(values, simd::Full{});
  }
};

// Sums of a slab for gamma and beta, [2, D]; with constants also dx.
template <bool kHasConstants, class T>
struct SlabBackward {
  const T* dy;
  const T* x;
  T* dx;
  const float* gamma;
  ChannelMap map;
  int64_t width;

  void run(int64_t begin, int64_t end, float* sums) const {
    const SlabBackward in = *this;
    std::fill_n(sums, 2 * in.width, 0.0f);
    for_each_row_block(begin, end, in.width, [&](int64_t i, auto n, int64_t first, int64_t stop) {
      const Lanes mean = in.map.mean_at(i, n);
      const Lanes rstd = in.map.rstd_at(i, n);
      const Lanes scale = rstd * simd::load(in.gamma + i, n);
      Lanes gamma_part, beta_part;
      for (int64_t row = first; row < stop; ++row) {
        const int64_t at = row * in.width + i;
        const Lanes gradient = simd::load(in.dy + at, n);
        gamma_part += gradient * (simd::load(in.x + at, n) - mean);
        beta_part += gradient;
        if constexpr (kHasConstants) simd::store(in.dx + at, gradient * scale, n);
      }
      add_to_row(sums + i, gamma_part * rstd, n);
      add_to_row(sums + in.width + i, beta_part, n);
    });
  }
};

template <class T>
void batch_norm_dx(const BatchNormTask& task, const ChannelMap& map, int64_t begin, int64_t end) {
  const int64_t width = task.in.x.size(1);
  const auto num_rows = static_cast<float>(task.in.x.size(0));
  const T* dy = task.in.dy.const_data_ptr<T>();
  const T* x = task.in.x.const_data_ptr<T>();
  T* dx = task.dx.mutable_data_ptr<T>();
  const float* gamma = task.in.gamma.const_data_ptr<float>();
  const float* totals = task.totals.const_data_ptr<float>();
  for_each_row_block(begin, end, width, [&](int64_t i, auto n, int64_t first, int64_t stop) {
    const Lanes mean = map.mean_at(i, n);
    const Lanes rstd = map.rstd_at(i, n);
    const Lanes scale = rstd * simd::load(gamma + i, n);
    const Lanes slope = rstd * simd::load(totals + i, n) / num_rows;
    const Lanes offset = simd::load(totals + width + i, n) / num_rows;
    for (int64_t row = first; row < stop; ++row) {
      const int64_t at = row * width + i;
      const Lanes centred = simd::load(x + at, n) - mean;
      simd::store(dx + at, (simd::load(dy + at, n) - offset - centred * slope) * scale, n);
    }
  });
}

template <bool kHasConstants>
void sum_slabs_backward(const BatchNormTask& task, const ChannelMap& map) {
  const int64_t width = task.in.x.size(1);
  float* sums = task.partial.mutable_data_ptr<float>();
  with_element_type(task.in.x, [&](auto zero) {
    using T = decltype(zero);
    const SlabBackward<kHasConstants, T> slab_backward{
        .dy = task.in.dy.const_data_ptr<T>(),
        .x = task.in.x.const_data_ptr<T>(),
        .dx = task.dx.mutable_data_ptr<T>(),
        .gamma = task.in.gamma.const_data_ptr<float>(),
        .map = map,
        .width = width};
    parallel_slabs(task.in.x.size(0), [&](int64_t slab, int64_t begin, int64_t end) {
      slab_backward.run(begin, end, sums + slab * 2 * width);
    });
  });
}

}  // namespace

void batch_statistics_cpu(const at::Tensor& x, const BatchNorm::Statistics& statistics,
                          const BatchNorm::Stage* stage, const at::Tensor& partial) {
  const int64_t num_rows = x.size(0), width = x.size(1);
  float* sums = partial.mutable_data_ptr<float>();
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* rows = x.const_data_ptr<T>();
    parallel_slabs(num_rows, [&](int64_t slab, int64_t begin, int64_t end) {
      sum_slab(rows, width, begin, end, sums + slab * kSlabStatistics * width);
    });
  });
  float* means = statistics.mean.mutable_data_ptr<float>();
  float* variances = statistics.variance.mutable_data_ptr<float>();
  parallel_rows(width, partial.size(0), [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      const Moments moments = combine_slabs(sums + channel, partial.size(0), num_rows, width);
      const ChannelStatistics of_batch{moments.mean,
                                       moments.square_sum / static_cast<double>(num_rows)};
      means[channel] = static_cast<float>(of_batch.mean);
      variances[channel] = static_cast<float>(of_batch.variance);
      if (stage != nullptr) add_to_stage(*stage, channel, of_batch, num_rows);
    }
  });
}

void batch_norm_commit_cpu(const BatchNorm::Stage& stage, const BatchNorm::Running& running) {
  const auto move = [&](at::Tensor& averages, const at::Tensor& staged, double factor) {
    float* values = averages.mutable_data_ptr<float>();
    const float* newest = staged.const_data_ptr<float>();
    for (int64_t channel = 0; channel < averages.numel(); ++channel)
      values[channel] = static_cast<float>(
          move_average(values[channel], factor * newest[channel], running.momentum));
  };
  move(running.mean, stage.mean, 1.0);
  const auto rows = static_cast<double>(stage.rows);
  if (stage.rows > 1) move(running.variance, stage.variance, rows / (rows - 1.0));
}

void batch_norm_forward_cpu(const at::Tensor& x, const BatchNorm::Statistics& statistics,
                            const BatchNorm::Parameters& parameters, const at::Tensor& y) {
  const int64_t width = x.size(1);
  const ChannelMap map{.mean = statistics.mean.const_data_ptr<float>(),
                       .variance = statistics.variance.const_data_ptr<float>(),
                       .epsilon = static_cast<float>(parameters.epsilon)};
  const float* gamma = parameters.gamma.const_data_ptr<float>();
  const float* beta = parameters.beta.const_data_ptr<float>();
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.const_data_ptr<T>();
    T* to = y.mutable_data_ptr<T>();
    parallel_rows(x.size(0), width, [&](int64_t begin, int64_t end) {
      for_each_row_block(begin, end, width, [&](int64_t i, auto n, int64_t first, int64_t stop) {
        const Lanes mean = map.mean_at(i, n);
        const Lanes scale = map.rstd_at(i, n) * simd::load(gamma + i, n);
        const Lanes shift = simd::load(beta + i, n);
        for (int64_t row = first; row < stop; ++row) {
          const int64_t at = row * width + i;
          simd::store(to + at, (simd::load(from + at, n) - mean) * scale + shift, n);
        }
      });
    });
  });
}

void batch_norm_backward_cpu(const BatchNormTask& task) {
  const int64_t num_rows = task.in.x.size(0), width = task.in.x.size(1);
  const ChannelMap map{.mean = task.in.statistics.mean.const_data_ptr<float>(),
                       .variance = task.in.statistics.variance.const_data_ptr<float>(),
                       .epsilon = static_cast<float>(task.in.epsilon)};
  const bool has_constants = task.kind == BatchNorm::Kind::kConstant;
  if (has_constants) {
    sum_slabs_backward<true>(task, map);
  } else {
    sum_slabs_backward<false>(task, map);
  }
  float* totals = task.totals.mutable_data_ptr<float>();
  std::fill_n(totals, 2 * width, 0.0f);
  add_slabs(task.partial.const_data_ptr<float>(), {totals, totals + width}, task.partial.size(0),
            width);
  add_slabs(totals,
            {task.gradients.gamma.mutable_data_ptr<float>(),
             task.gradients.beta.mutable_data_ptr<float>()},
            1, width);
  if (has_constants) return;
  with_element_type(task.in.x, [&](auto zero) {
    using T = decltype(zero);
    parallel_rows(num_rows, width,
                  [&](int64_t begin, int64_t end) { batch_norm_dx<T>(task, map, begin, end); });
  });
}

}  // namespace sotto::kernels::detail
