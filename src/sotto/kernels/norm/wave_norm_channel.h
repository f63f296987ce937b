// The arithmetic of one channel in one utterance, shared by the CPU and CUDA versions of WaveNorm.
#pragma once

#include <cmath>
#include <cstdint>

namespace sotto::kernels {

// A channel in an utterance: the mean of its results, and the inverse of their deviation.
struct WaveChannel {
  double mean;
  double rstd;
};

// Returns row i of the covariances times the weight.
template <class T>
constexpr double covariance_row(const T* weight, const double* statistics, int64_t size,
                                int64_t i) {
  double sum = 0.0;
  for (int64_t j = 0; j < size; ++j)
    sum += statistics[size + i * size + j] * static_cast<double>(static_cast<float>(weight[j]));
  return sum;
}

// `statistics` [W + W W] of the utterance, `weight` [W] of the channel.
template <class T>
constexpr WaveChannel wave_channel(const T* weight, const double* statistics, int64_t size,
                                   double epsilon) {
  double mean = 0.0;
  double variance = 0.0;
  for (int64_t i = 0; i < size; ++i) {
    const double w = static_cast<double>(static_cast<float>(weight[i]));
    mean += w * statistics[i];
    variance += w * covariance_row(weight, statistics, size, i);
  }
  return {mean, 1.0 / sqrt((variance > 0.0 ? variance : 0.0) + epsilon)};
}

template <class T>
constexpr void fold_channel(const T* weight, double gamma, double beta, const WaveChannel& channel,
                            int64_t size, float* folded_weight, float* folded_bias) {
  const double scale = gamma * channel.rstd;
  for (int64_t i = 0; i < size; ++i)
    folded_weight[i] =
        static_cast<float>(scale * static_cast<double>(static_cast<float>(weight[i])));
  *folded_bias = static_cast<float>(beta - scale * channel.mean);
}

// Adds one utterance's part to the gradients of a channel.
template <class T>
constexpr void add_channel_gradients(const T* weight, double gamma, const double* statistics,
                                     const WaveChannel& channel, int64_t size,
                                     const float* d_weight, double d_bias, float* grad_weight,
                                     float* grad_gamma, float* grad_beta) {
  const double scale = gamma * channel.rstd;
  double d_scale = -d_bias * channel.mean;
  for (int64_t i = 0; i < size; ++i)
    d_scale +=
        static_cast<double>(d_weight[i]) * static_cast<double>(static_cast<float>(weight[i]));
  const double d_variance = -0.5 * d_scale * gamma * channel.rstd * channel.rstd * channel.rstd;
  for (int64_t i = 0; i < size; ++i) {
    const double direct = scale * (static_cast<double>(d_weight[i]) - d_bias * statistics[i]);
    const double by_variance = 2.0 * d_variance * covariance_row(weight, statistics, size, i);
    grad_weight[i] += static_cast<float>(direct + by_variance);
  }
  *grad_gamma += static_cast<float>(d_scale * channel.rstd);
  *grad_beta += static_cast<float>(d_bias);
}

}  // namespace sotto::kernels
