#include "sotto/nn/layers/lstm_layer.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <utility>

#include "sotto/kernels/elementwise/dropout.h"
#include "sotto/kernels/elementwise/embedding.h"

namespace sotto::nn {

namespace {

using device::MomentScope;
using device::Phase;
using kernels::Dropout;
using kernels::Lstm;
using kernels::RecurrenceOrder;

enum LstmSlot : size_t { kLstmInput, kLstmActivations, kNumLstmSlots };

constexpr int64_t kLstmDropout = 0;

// Gates, cells and hidden states are computed together.
constexpr std::array<SlotSpec, kNumLstmSlots> kLstmSlots = {{
    {.name = "input"},
    {.name = "activations", .dropped_from = Tier::kBlock},
}};

Lstm::Activations activations_of(const LayerTape::Tensors& tensors) {
  return {.gates = tensors[0], .cells = tensors[1], .hidden = tensors[2]};
}

ParameterSpec lstm_matrix(const std::string& name, int64_t inputs, int64_t width) {
  return {.name = name,
          .shape = {4 * width, inputs},
          .bound = 1.0 / std::sqrt(static_cast<double>(width))};
}

ParameterSpec lstm_bias(const std::string& name, int64_t width, double of_forget_gate) {
  return {.name = name,
          .shape = {4 * width},
          .bound = 1.0 / std::sqrt(static_cast<double>(width)),
          .constant = {.first = width, .count = width, .value = of_forget_gate}};
}

}  // namespace

LstmLayer::LstmLayer(ParameterStore& store, const std::string& name,
                     const LstmLayerOptions& options)
    : options_(options),
      input_(store.declare(lstm_matrix(name + ".weight_ih", options.inputs, options.width))),
      hidden_(store.declare(lstm_matrix(name + ".weight_hh", options.width, options.width))),
      input_bias_(store.declare(lstm_bias(name + ".bias_ih", options.width, 1.0))),
      hidden_bias_(store.declare(lstm_bias(name + ".bias_hh", options.width, 0.0))) {}

LstmLayer::Weights LstmLayer::weights_for(const at::Tensor& x) const {
  return {.input = in_type_of(input_.value, x), .hidden = in_type_of(hidden_.value, x)};
}

Lstm::Weights LstmLayer::with_biases(const Weights& weights) const {
  return {.input = weights.input,
          .hidden = weights.hidden,
          .input_bias = input_bias_.value,
          .hidden_bias = hidden_bias_.value};
}

const LayerTape::Tensors& LstmLayer::activations(const RecurrenceOrder& order,
                                                 LayerTape& tape) const {
  const auto compute = [&] {
    const at::Tensor& x = tape.kept(kLstmInput).front();
    const Weights weights = weights_for(x);
    Lstm::Activations computed = Lstm::forward(x, with_biases(weights), order);
    return LayerTape::Tensors{std::move(computed.gates), std::move(computed.cells),
                              std::move(computed.hidden)};
  };
  return tape.get(kLstmActivations, compute);
}

at::Tensor LstmLayer::forward(at::Tensor x, const RecurrenceOrder& order, const Context& context,
                              Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kForward));
  LayerTape& tape = tapes.open(context.layer, kLstmSlots, context.has_backward());
  tape.put(kLstmInput, {std::move(x)});
  at::Tensor y = Lstm::output(activations_of(activations(order, tape)), order);
  tape.settle(kLstmActivations);
  tape.settle(kLstmInput);
  Dropout::apply(y, context.packing, context.dropout(kLstmDropout, options_.dropout));
  if (!context.has_backward()) tapes.close(context.layer);
  return y;
}

at::Tensor LstmLayer::backward(at::Tensor dy, const RecurrenceOrder& order, const Context& context,
                               Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kBackward));
  LayerTape& tape = tapes.layer(context.layer);
  tape.begin_backward();
  Dropout::apply(dy, context.packing, context.dropout(kLstmDropout, options_.dropout));
  const Lstm::Activations kept = activations_of(activations(order, tape));
  const at::Tensor& x = tape.kept(kLstmInput).front();
  const Weights weights = weights_for(x);
  at::Tensor dx = Lstm::backward(
      {.dy = dy, .x = x, .activations = kept, .weights = with_biases(weights)}, order,
      {.input = input_.gradient,
       .hidden = hidden_.gradient,
       .input_bias = input_bias_.gradient,
       .hidden_bias = hidden_bias_.gradient});
  tapes.close(context.layer);
  return dx;
}

Lstm::State LstmLayer::make_state(int64_t num_rows, const at::TensorOptions& like) const {
  Lstm::State state{.hidden = at::empty({num_rows, options_.width}, like),
                    .cells = at::empty({num_rows, options_.width}, like.dtype(at::kFloat))};
  if (state.hidden.is_meta()) return state;
  state.hidden.zero_();
  state.cells.zero_();
  return state;
}

at::Tensor LstmLayer::step(const Lstm::StepInputs& in, Lstm::State& state) const {
  const Weights weights = weights_for(in.x);
  Lstm::step(in, with_biases(weights), state);
  return kernels::Embedding::forward(in.to, state.hidden);
}

}  // namespace sotto::nn
