// Group normalisation of a convolution over the waveform, one channel per group (the first layer of
// wav2vec2's `group` kind), computed without the convolution's results: mean and variance of a
// channel over an utterance follow from those of the windows of samples, so that the normalisation
// becomes a weight and a bias for each utterance. B utterances of S samples together, W taps, O
// channels.
//
//   z = gamma (w window - mean) / sqrt(variance + epsilon) + beta = folded weight window + folded
//   bias
//
// A bias of the convolution itself would be cancelled by the mean, and is not needed here.
//
// Allocates: statistics and the folded weights. As workspace fp64 sums of kSlabs parts of each
// utterance, [B, kSlabs, W + W W].
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct WaveNorm {
  struct Options {
    int64_t size = 10;
    int64_t stride = 5;
    double epsilon = 1e-5;
  };

  // Number of parts of an utterance that are summed separately.
  static constexpr int64_t kSlabs = 16;

  struct Parameters {
    const at::Tensor& weight;  // [O, W], any type
    const at::Tensor& gamma;   // [O] fp32
    const at::Tensor& beta;    // [O] fp32
  };

  struct Folded {
    at::Tensor weight;  // [B, O, W] fp32
    at::Tensor bias;    // [B, O] fp32
  };

  struct Gradients {
    at::Tensor& weight;  // [O, W] fp32, added to
    at::Tensor& gamma;   // [O] fp32, added to
    at::Tensor& beta;    // [O] fp32, added to
  };

  // Returns [B, W + W W] fp64: the mean of an utterance's windows, then their covariances. samples
  // [S] fp32; every utterance has at least one window.
  static at::Tensor statistics(const at::Tensor& samples, const Packing& packing,
                               const Options& options);

  static Folded fold(const at::Tensor& statistics, const Parameters& parameters,
                     const Options& options);

  // Computes the gradients of the parameters from those of the folded weights, one utterance after
  // another.
  static void backward(const Folded& d_folded, const at::Tensor& statistics,
                       const Parameters& parameters, const Gradients& gradients,
                       const Options& options);
};

}  // namespace sotto::kernels
