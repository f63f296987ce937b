#include "sotto/nn/blocks/cross_attention.h"

#include <utility>

#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/attention/row_attention.h"
#include "sotto/kernels/elementwise/residual_add.h"

namespace sotto::nn {

namespace {

using kernels::Attention;
using CrossTensors = LayerTape::Tensors;

Attention::Packs packs_of(const Context& context) {
  return {.queries = context.packing, .keys = context.seen->packing};
}

}  // namespace

CrossAttention::CrossAttention(ParameterStore& store, const std::string& name,
                               const CrossAttentionOptions& options)
    : options_(options),
      norm_(store, name + ".norm", options.width, options.norm, options.norm_epsilon),
      query_(store, name + ".query", options.width, options.width, options.deviation),
      keys_values_(store, name + ".kv",
                   {.inputs = options.seen_width,
                    .outputs = 2 * options.width,
                    .deviation = options.deviation,
                    .unbiased_end = options.has_key_bias ? 0 : options.width}),
      out_(store, name + ".out", options.width, options.width, options.result_deviation) {}

const CrossTensors& CrossAttention::normed(const PartInput& x, LayerTape& tape) const {
  return tape.get(slot(kNorm), [&] { return norm_.forward(x()); });
}

const at::Tensor& CrossAttention::query(const PartInput& x, LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor q = query_.forward(normed(x, tape).front());
    tape.settle(slot(kNorm));
    return CrossTensors{std::move(q)};
  };
  return tape.get(slot(kQuery), compute).front();
}

const at::Tensor& CrossAttention::keys_values(const Context& context, LayerTape& tape) const {
  const auto compute = [&] {
    return CrossTensors{keys_values_.forward(context.seen->result.value())};
  };
  return tape.get(slot(kKeysValues), compute).front();
}

const CrossTensors& CrossAttention::attention(const PartInput& x, const Context& context,
                                              LayerTape& tape) const {
  return tape.get(slot(kAttention), [&] {
    const at::Tensor& q = query(x, tape);
    Attention::Result result =
        Attention::forward_cross({.q = q, .kv = keys_values(context, tape)}, packs_of(context),
                                 {.num_heads = options_.num_heads});
    tape.settle(slot(kQuery));
    tape.settle(slot(kKeysValues));
    return CrossTensors{std::move(result.y), std::move(result.softmax)};
  });
}

const at::Tensor& CrossAttention::result(const PartInput& x, const Context& context,
                                         LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor y = out_.forward(attention(x, context, tape).front());
    tape.settle(slot(kAttention));
    kernels::ResidualAdd::accumulate_dropped(
        y, x(), context.packing, context.dropout(options_.dropout_index, options_.dropout));
    return CrossTensors{std::move(y)};
  };
  return tape.get(slot(kResult), compute).front();
}

at::Tensor CrossAttention::step(const at::Tensor& x, const at::Tensor& keys_values,
                                const DecodingStep& step) const {
  const at::Tensor q = query_.forward(norm_.forward(x).front());
  const kernels::RowAttention::Inputs in{.q = q, .kv = keys_values};
  if (step.weights != nullptr)
    kernels::RowAttention::add_weights(in, step.seen, options_.num_heads, step.weight,
                                       *step.weights);
  at::Tensor y = out_.forward(kernels::RowAttention::forward(in, step.seen, options_.num_heads));
  kernels::ResidualAdd::accumulate(y, x);
  return y;
}

// Each tensor is freed after its last use.
at::Tensor CrossAttention::backward(const at::Tensor& dy, const PartInput& x,
                                    const Context& context, LayerTape& tape) const {
  const at::Tensor& q = query(x, tape);
  const at::Tensor& kv = keys_values(context, tape);
  const CrossTensors& kept = attention(x, context, tape);
  at::Tensor d_result =
      dropped_gradient(dy, context, context.dropout(options_.dropout_index, options_.dropout));
  out_.accumulate(d_result, kept.front());
  at::Tensor d_attention = out_.input_gradient(d_result);  // [N, D]
  d_result.reset();
  Attention::CrossGradients gradients = Attention::backward_cross(
      {.dy = d_attention, .q = q, .kv = kv, .y = kept.at(0), .softmax = kept.at(1)},
      packs_of(context), {.num_heads = options_.num_heads});
  d_attention.reset();
  tape.release(slot(kAttention));
  tape.release(slot(kQuery));
  tape.release(slot(kKeysValues));

  keys_values_.accumulate(gradients.dkv, context.seen->result.value());
  if (context.seen->has_backward)
    context.seen->result.add_gradient(keys_values_.input_gradient(gradients.dkv));
  gradients.dkv.reset();
  query_.accumulate(gradients.dq, normed(x, tape).front());
  at::Tensor d_normed = query_.input_gradient(gradients.dq);
  gradients.dq.reset();
  at::Tensor dx = norm_.backward(d_normed, x(), normed(x, tape), &dy);
  tape.release(slot(kNorm));
  return dx;
}

}  // namespace sotto::nn
