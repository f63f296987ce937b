// The positional embedding of wav2vec2: a grouped convolution with normalised weights over
// neighbouring frames, added to the input; followed by a norm in the base models. N frames, D
// width.
//
//   y = x + act(convolution(x) + bias), or norm of that
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "sotto/nn/context.h"
#include "sotto/nn/layers/activation.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct PositionalConvolutionOptions {
  int64_t width = 768;
  int64_t taps = 128;
  int64_t groups = 16;
  Activation activation = Activation::kGelu;
  // Norm after the sum; absent before pre-norm blocks.
  bool has_norm = true;
  double norm_epsilon = 1e-5;
};

class PositionalConvolution {
 public:
  PositionalConvolution(ParameterStore& store, const std::string& name,
                        const PositionalConvolutionOptions& options);

  // Returns y [N, D] for x [N, D].
  at::Tensor forward(at::Tensor x, const Context& context, Tape& tape) const;

  // Returns dx [N, D] for dy [N, D]; accumulates into the gradients of trainable parameters and
  // closes the layer's tape.
  at::Tensor backward(at::Tensor dy, const Context& context, Tape& tape) const;

 private:
  // The convolution's weight [D, C, K] in the type of x, and the norm of its direction.
  struct Weight {
    at::Tensor values;
    at::Tensor length;  // [K]
  };
  Weight weight_for(const at::Tensor& x) const;

  const at::Tensor& product(const Context& context, LayerTape& tape) const;  // [N, D]
  const at::Tensor& sum(const Context& context, LayerTape& tape) const;      // [N, D]
  void accumulate(const at::Tensor& d_product, const at::Tensor& x, const Context& context,
                  const Weight& weight) const;

  PositionalConvolutionOptions options_;
  // Owned by the store.
  Parameter& direction_;  // [D, C, K]
  Parameter& length_;     // [K]
  Parameter& bias_;       // [D]
  std::optional<Norm> norm_;
};

}  // namespace sotto::nn
