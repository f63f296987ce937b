#include "sotto/nn/blocks/relative_attention.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/kernels/elementwise/residual_add.h"
#include "sotto/kernels/product/gemm.h"

namespace sotto::nn {

namespace {

using kernels::Attention;
using kernels::Gemm;
using RelativeTensors = LayerTape::Tensors;

RelativeAttentionOptions checked(const RelativeAttentionOptions& options) {
  if (options.attention_dropout > 0.0) {
    throw ConfigError({.attempted = "creating attention with relative positions",
                       .found = fmt::format("attention dropout of {}", options.attention_dropout),
                       .expected = "0, because its kernel drops no probabilities",
                       .hint = "Set attention dropout to 0; dropout of the result remains."});
  }
  if (options.attention.variant != Attention::Variant::kTiled) {
    throw ConfigError({.attempted = "creating attention with relative positions",
                       .found = "plain attention",
                       .expected = "tiled attention, the only one with relative positions",
                       .hint = "Choose tiled attention."});
  }
  return options;
}

double position_deviation(const RelativeAttentionOptions& options) {
  if (options.deviation > 0.0) return options.deviation;
  return 1.0 / std::sqrt(static_cast<double>(options.width));
}

const at::Tensor& table_of(const Context& context) {
  SOTTO_ASSERT(context.positions != nullptr, "the context has no relative positions");
  return context.positions->table();
}

}  // namespace

RelativeAttention::RelativeAttention(ParameterStore& store, const std::string& name,
                                     const RelativeAttentionOptions& options)
    : options_(checked(options)),
      norm_(store, name + ".norm", options.width, options.norm, options.norm_epsilon),
      qkv_(store, name + ".qkv", options.width, 3 * options.width, options.deviation,
           options.has_biases),
      position_(store.declare({.name = name + ".position.weight",
                               .shape = {options.width, options.width},
                               .deviation = position_deviation(options)})),
      content_bias_(store.declare({.name = name + ".content_bias", .shape = {options.width}})),
      position_bias_(store.declare({.name = name + ".position_bias", .shape = {options.width}})),
      out_(store, name + ".out", options.width, options.width, options.result_deviation,
           options.has_biases) {}

const RelativeTensors& RelativeAttention::normed(const PartInput& x, LayerTape& tape) const {
  return tape.get(slot(kNorm), [&] { return norm_.forward(x()); });
}

const at::Tensor& RelativeAttention::qkv(const PartInput& x, LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor rows = qkv_.forward(normed(x, tape).front());
    tape.settle(slot(kNorm));
    return RelativeTensors{std::move(rows)};
  };
  return tape.get(slot(kQkv), compute).front();
}

const at::Tensor& RelativeAttention::positions(const Context& context, LayerTape& tape) const {
  const auto compute = [&] {
    const at::Tensor& table = table_of(context);
    const at::Tensor weight = in_type_of(position_.value, table);
    return RelativeTensors{Gemm::multiply({.a = table, .b = weight, .transpose_b = true})};
  };
  return tape.get(slot(kPositions), compute).front();
}

const RelativeTensors& RelativeAttention::attention(const PartInput& x, const Context& context,
                                                    LayerTape& tape) const {
  return tape.get(slot(kAttention), [&] {
    const at::Tensor& rows = qkv(x, tape);
    const Attention::Relative relative{.positions = positions(context, tape),
                                       .content_bias = content_bias_.value,
                                       .position_bias = position_bias_.value};
    Attention::Result result =
        Attention::forward(rows, context.packing, options_.attention, &relative);
    tape.settle(slot(kQkv));
    tape.settle(slot(kPositions));
    return RelativeTensors{std::move(result.y), std::move(result.softmax)};
  });
}

const at::Tensor& RelativeAttention::result(const PartInput& x, const Context& context,
                                            LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor y = out_.forward(attention(x, context, tape).front());
    tape.settle(slot(kAttention));
    kernels::ResidualAdd::accumulate_dropped(
        y, x(), context.packing, context.dropout(options_.dropout_index, options_.dropout));
    return RelativeTensors{std::move(y)};
  };
  return tape.get(slot(kResult), compute).front();
}

at::Tensor RelativeAttention::attention_backward(const at::Tensor& dy, const PartInput& x,
                                                 const Context& context, LayerTape& tape) const {
  const RelativeTensors& kept = attention(x, context, tape);
  Attention::Relative::Gradients gradients{.content_bias = content_bias_.gradient,
                                           .position_bias = position_bias_.gradient};
  const Attention::Relative relative{.positions = positions(context, tape),
                                     .content_bias = content_bias_.value,
                                     .position_bias = position_bias_.value,
                                     .gradients = &gradients};
  at::Tensor dqkv =
      Attention::backward({.dy = dy, .qkv = qkv(x, tape), .y = kept.at(0), .softmax = kept.at(1)},
                          context.packing, options_.attention, &relative);
  Gemm::accumulate(position_.gradient,
                   {.a = gradients.positions, .b = table_of(context), .transpose_a = true});
  return dqkv;
}

// Each tensor is freed after its last use.
at::Tensor RelativeAttention::backward(const at::Tensor& dy, const PartInput& x,
                                       const Context& context, LayerTape& tape) const {
  qkv(x, tape);  // recomputed before others take memory
  positions(context, tape);
  const RelativeTensors& kept = attention(x, context, tape);
  at::Tensor d_result =
      dropped_gradient(dy, context, context.dropout(options_.dropout_index, options_.dropout));
  out_.accumulate(d_result, kept.front());
  at::Tensor d_attention = out_.input_gradient(d_result);  // [N, D]
  d_result.reset();
  at::Tensor dqkv = attention_backward(d_attention, x, context, tape);
  d_attention.reset();
  tape.release(slot(kAttention));
  tape.release(slot(kPositions));
  tape.release(slot(kQkv));

  qkv_.accumulate(dqkv, normed(x, tape).front());
  at::Tensor d_normed = qkv_.input_gradient(dqkv);
  dqkv.reset();
  at::Tensor dx = norm_.backward(d_normed, x(), normed(x, tape), &dy);
  tape.release(slot(kNorm));
  return dx;
}

}  // namespace sotto::nn
