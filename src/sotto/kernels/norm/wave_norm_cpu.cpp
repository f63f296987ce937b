#include "sotto/kernels/norm/wave_norm.h"
#include "sotto/kernels/norm/wave_norm_arrays.h"
#include "sotto/kernels/norm/wave_norm_channel.h"
#include "sotto/kernels/simd/cpu_kernel.h"

namespace sotto::kernels::detail {

namespace {

// Computes the statistics of one utterance's windows.
void utterance_statistics(const float* samples, int64_t num_samples,
                          const WaveNorm::Options& options, double* statistics) {
  const int64_t size = options.size;
  const int64_t num_windows = (num_samples - size) / options.stride + 1;
  double* covariances = statistics + size;
  std::fill(statistics, statistics + size * (size + 1), 0.0);
  for (int64_t window = 0; window < num_windows; ++window) {
    const float* x = samples + window * options.stride;
    for (int64_t i = 0; i < size; ++i) {
      const double xi = x[i];
      statistics[i] += xi;
      for (int64_t j = 0; j <= i; ++j) covariances[i * size + j] += xi * static_cast<double>(x[j]);
    }
  }
  const auto count = static_cast<double>(num_windows);
  for (int64_t i = 0; i < size; ++i) statistics[i] /= count;
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      const double covariance = covariances[i * size + j] / count - statistics[i] * statistics[j];
      covariances[i * size + j] = covariance;
      covariances[j * size + i] = covariance;
    }
  }
}

template <class Body>
void with_weight_type(at::ScalarType type, Body body) {
  switch (type) {
    case at::kFloat: return body(float{});
    case at::kBFloat16: return body(c10::BFloat16{});
    default: return body(c10::Half{});
  }
}

}  // namespace

void wave_statistics_cpu(const at::Tensor& samples, const Packing& packing,
                         const WaveNorm::Options& options, const at::Tensor& statistics) {
  parallel_tasks(packing.num_utterances(), samples.numel(), [&](int64_t u) {
    const auto index = static_cast<size_t>(u);
    utterance_statistics(samples.const_data_ptr<float>() + packing.starts()[index],
                         packing.lengths()[index], options,
                         statistics.mutable_data_ptr<double>() + u * statistics.size(1));
  });
}

void wave_fold_cpu(const WaveFold& in, at::ScalarType type) {
  const int64_t outputs = in.weight.rows;
  const int64_t size = in.weight.width;
  with_weight_type(type, [&](auto zero) {
    const auto* weight = static_cast<const decltype(zero)*>(in.weight.data);
    parallel_rows(in.num_utterances * outputs, size * size, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t o = row % outputs;
        const double* statistics = in.statistics + row / outputs * size * (size + 1);
        fold_channel(weight + o * size, in.gamma[o], in.beta[o],
                     wave_channel(weight + o * size, statistics, size, in.epsilon), size,
                     in.folded_weight + row * size, in.folded_bias + row);
      }
    });
  });
}

void wave_backward_cpu(const WaveFold& in, at::ScalarType type) {
  const int64_t outputs = in.weight.rows;
  const int64_t size = in.weight.width;
  with_weight_type(type, [&](auto zero) {
    const auto* weight = static_cast<const decltype(zero)*>(in.weight.data);
    parallel_rows(outputs, in.num_utterances * size * size, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        for (int64_t u = 0; u < in.num_utterances; ++u) {
          const double* statistics = in.statistics + u * size * (size + 1);
          const int64_t row = u * outputs + o;
          add_channel_gradients(weight + o * size, in.gamma[o], statistics,
                                wave_channel(weight + o * size, statistics, size, in.epsilon), size,
                                in.folded_weight + row * size, in.folded_bias[row],
                                in.grad_weight + o * size, in.grad_gamma + o, in.grad_beta + o);
        }
      }
    });
  });
}

}  // namespace sotto::kernels::detail
