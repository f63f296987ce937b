#include "sotto/nn/heads/prediction_network.h"

#include <fmt/format.h>

#include <utility>

#include "sotto/core/error.h"
#include "sotto/kernels/elementwise/cast.h"
#include "sotto/kernels/elementwise/embedding.h"
#include "sotto/kernels/elementwise/frame_mask.h"

namespace sotto::nn {

namespace {

using kernels::Embedding;
using kernels::RecurrenceOrder;

ParameterSpec label_table(const std::string& name, const PredictionNetworkOptions& options) {
  ParameterSpec spec{.name = name, .shape = {options.vocabulary, options.width}, .deviation = 1.0};
  if (!options.trains_blank)
    spec.constant = {.first = options.blank * options.width, .count = options.width};
  return spec;
}

}  // namespace

PredictionNetwork::PredictionNetwork(ParameterStore& store, const std::string& name,
                                     const PredictionNetworkOptions& options)
    : options_(options), table_(store.declare(label_table(name + ".embedding.weight", options))) {
  SOTTO_ASSERT(options.blank >= 0 && options.blank < options.vocabulary,
               "the blank is {} of {} entries", options.blank, options.vocabulary);
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    layers_.emplace_back(
        store, fmt::format("{}.lstm.{}", name, layer),
        LstmLayerOptions{
            .inputs = options.width, .width = options.width, .dropout = options.dropout});
  }
}

at::Tensor PredictionNetwork::embedded(const at::Tensor& tokens) const {
  at::Tensor x = Embedding::forward(tokens, table_.value);
  return x.scalar_type() == options_.compute ? x : kernels::Cast::to(x, options_.compute);
}

at::Tensor PredictionNetwork::forward(const Rows& rows, const StepContext& step, Tape& tape) const {
  const Context context = context_of(rows, step);
  at::Tensor x;  // [N, H]
  {
    const device::MomentScope moment(context.moment(device::Phase::kForward));
    x = embedded(rows.tokens);
  }
  const RecurrenceOrder order(rows.packing);
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const Context own = context.at_layer(options_.first_layer + static_cast<int64_t>(layer));
    x = layers_[layer].forward(std::move(x), order, own, tape);
  }
  return x;
}

void PredictionNetwork::backward(at::Tensor dy, const Rows& rows, const StepContext& step,
                                 Tape& tape) const {
  const Context context = context_of(rows, step);
  const RecurrenceOrder order(rows.packing);
  for (size_t layer = layers_.size(); layer-- > 0;) {
    const Context own = context.at_layer(options_.first_layer + static_cast<int64_t>(layer));
    dy = layers_[layer].backward(std::move(dy), order, own, tape);
  }
  accumulate_embedding(std::move(dy), rows, context);
}

void PredictionNetwork::accumulate_embedding(at::Tensor dx, const Rows& rows,
                                             const Context& context) const {
  const device::MomentScope moment(context.moment(device::Phase::kBackward));
  if (!options_.trains_blank) {
    // The blank is the first token of each sequence, and no other.
    const at::Tensor firsts =
        rows.packing.device_starts().narrow(0, 0, rows.packing.num_utterances());
    kernels::FrameMask::zero_rows(dx, firsts);
  }
  GradientSum gradient(table_);
  Embedding::backward(dx, rows.tokens, gradient.sum());
  gradient.add();
}

PredictionNetwork::State PredictionNetwork::make_state(int64_t num_rows,
                                                       const at::Device& device) const {
  const auto like = at::TensorOptions().device(device).dtype(options_.compute);
  State state;
  for (const LstmLayer& layer : layers_) state.push_back(layer.make_state(num_rows, like));
  return state;
}

at::Tensor PredictionNetwork::step(const Tokens& tokens, State& state) const {
  SOTTO_ASSERT(state.size() == layers_.size(), "the state of {} layers for {}", state.size(),
               layers_.size());
  at::Tensor x = embedded(tokens.tokens);
  for (size_t layer = 0; layer < layers_.size(); ++layer)
    x = layers_[layer].step({.x = x, .from = tokens.from, .to = tokens.to}, state[layer]);
  return x;
}

}  // namespace sotto::nn
