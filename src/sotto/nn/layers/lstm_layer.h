// A layer of long short-term memory over packed sequences, with dropout on its result. N rows, I
// inputs, H width.
//
// It keeps its gates, cells and hidden states up to tier `qkv`; from `block` on it keeps its input
// alone and runs the recurrence again.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "sotto/kernels/base/recurrence_order.h"
#include "sotto/kernels/recurrent/lstm.h"
#include "sotto/nn/context.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct LstmLayerOptions {
  int64_t inputs = 640;
  int64_t width = 640;
  // On the result.
  double dropout = 0.2;
};

class LstmLayer {
 public:
  // Parameters are named NAME.weight_ih, NAME.weight_hh, NAME.bias_ih and NAME.bias_hh, in the
  // layout of torch.nn.LSTM. They start as in NeMo: uniform as in torch, but for the forget gate's
  // biases, which are 1 and 0.
  LstmLayer(ParameterStore& store, const std::string& name, const LstmLayerOptions& options);

  // Returns y [N, H] for x [N, I]; `order` is that of the context's pack.
  at::Tensor forward(at::Tensor x, const kernels::RecurrenceOrder& order, const Context& context,
                     Tape& tape) const;

  // Returns dx [N, I] for dy [N, H]; adds to the parameters' gradients and closes the layer's tape.
  at::Tensor backward(at::Tensor dy, const kernels::RecurrenceOrder& order, const Context& context,
                      Tape& tape) const;

  // Decoding. Returns the state of `num_rows` sequences that have not started, for activations
  // like `like`.
  kernels::Lstm::State make_state(int64_t num_rows, const at::TensorOptions& like) const;
  // Returns y [A, H] of one more row x [A, I] of A sequences, without dropout.
  at::Tensor step(const kernels::Lstm::StepInputs& in, kernels::Lstm::State& state) const;

 private:
  // The weights in the type of the activations.
  struct Weights {
    at::Tensor input;
    at::Tensor hidden;
  };
  Weights weights_for(const at::Tensor& x) const;
  kernels::Lstm::Weights with_biases(const Weights& weights) const;
  const LayerTape::Tensors& activations(const kernels::RecurrenceOrder& order,
                                        LayerTape& tape) const;

  LstmLayerOptions options_;
  // Owned by the store, which outlives its layers.
  Parameter& input_;        // [4 H, I]
  Parameter& hidden_;       // [4 H, H]
  Parameter& input_bias_;   // [4 H]
  Parameter& hidden_bias_;  // [4 H]
};

}  // namespace sotto::nn
