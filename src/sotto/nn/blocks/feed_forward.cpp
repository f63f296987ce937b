#include "sotto/nn/blocks/feed_forward.h"

#include <utility>

#include "sotto/kernels/elementwise/residual_add.h"

namespace sotto::nn {

namespace {

using FeedForwardTensors = LayerTape::Tensors;

}  // namespace

FeedForward::FeedForward(ParameterStore& store, const std::string& name,
                         const FeedForwardOptions& options)
    : options_(options),
      norm_(store, name + ".norm", options.width, options.norm, options.norm_epsilon),
      in_(store, name + ".in", options.width, options.hidden, 0.0, options.has_biases),
      out_(store, name + ".out", options.hidden, options.width, options.result_deviation,
           options.has_biases) {}

kernels::Dropped FeedForward::activation_dropout(const Context& context) const {
  return {.packing = context.packing,
          .mask = context.dropout(options_.dropout_index, options_.activation_dropout)};
}

kernels::Dropout::Mask FeedForward::result_mask(const Context& context) const {
  return context.dropout(options_.dropout_index + 1, options_.dropout, options_.scale);
}

const FeedForwardTensors& FeedForward::normed(const PartInput& x, LayerTape& tape) const {
  return tape.get(slot(kNorm), [&] { return norm_.forward(x()); });
}

const at::Tensor& FeedForward::hidden(const PartInput& x, LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor result = in_.forward(normed(x, tape).front());
    tape.settle(slot(kNorm));
    return FeedForwardTensors{std::move(result)};
  };
  return tape.get(slot(kHidden), compute).front();
}

const at::Tensor& FeedForward::activated(const PartInput& x, const Context& context,
                                         LayerTape& tape) const {
  const auto compute = [&] {
    const kernels::Dropped dropped = activation_dropout(context);
    at::Tensor result = activate(options_.activation, hidden(x, tape), &dropped);
    tape.settle(slot(kHidden));
    return FeedForwardTensors{std::move(result)};
  };
  return tape.get(slot(kActivated), compute).front();
}

const at::Tensor& FeedForward::result(const PartInput& x, const Context& context,
                                      LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor y = out_.forward(activated(x, context, tape));
    tape.settle(slot(kActivated));
    kernels::ResidualAdd::accumulate_dropped(y, x(), context.packing, result_mask(context));
    return FeedForwardTensors{std::move(y)};
  };
  return tape.get(slot(kResult), compute).front();
}

// Each tensor is freed after its last use.
at::Tensor FeedForward::backward(const at::Tensor& dy, const PartInput& x, const Context& context,
                                 LayerTape& tape) const {
  const at::Tensor& activation = activated(x, context, tape);
  at::Tensor d_result = dropped_gradient(dy, context, result_mask(context));
  out_.accumulate(d_result, activation);
  tape.release(slot(kActivated));
  at::Tensor d_hidden = out_.input_gradient(d_result);  // [N, H]
  d_result.reset();
  const kernels::Dropped dropped = activation_dropout(context);
  activation_backward(options_.activation, d_hidden, hidden(x, tape), &dropped);
  tape.release(slot(kHidden));

  normed(x, tape);
  FeedForwardTensors kept = tape.take(slot(kNorm));
  in_.accumulate(d_hidden, kept.front());
  kept.front().reset();
  at::Tensor d_normed = in_.input_gradient(d_hidden);
  d_hidden.reset();
  return norm_.backward(d_normed, x(), kept, &dy);
}

}  // namespace sotto::nn
