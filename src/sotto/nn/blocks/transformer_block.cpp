#include "sotto/nn/blocks/transformer_block.h"

#include <array>
#include <cmath>
#include <utility>

#include "sotto/kernels/elementwise/residual_add.h"

namespace sotto::nn {

namespace {

using device::MomentScope;
using device::Phase;
using kernels::Attention;
using kernels::Dropout;
using kernels::Dropped;
using kernels::ResidualAdd;

enum Slot : size_t {
  kInput,
  kNorm1,
  kQkv,
  kAttention,
  kMiddle,
  kNorm2,
  kHidden,
  kActivated,
  kSum,
  kCross,
  kNumSlots = kCross + CrossAttention::kSlots.size()
};

// Specifications by Slot. `norms` and later tiers free the norms, `ffn` and later ones also the
// first product of the feed-forward part, and so on.
constexpr std::array<SlotSpec, kNumSlots> kSlots = {{
    {.name = "input"},
    {.name = "norm1", .dropped_from = Tier::kNorms},
    {.name = "qkv", .dropped_from = Tier::kQkv},
    {.name = "attention", .dropped_from = Tier::kBlock},
    {.name = "middle", .dropped_from = Tier::kBlock},
    {.name = "norm2", .dropped_from = Tier::kNorms},
    {.name = "hidden", .dropped_from = Tier::kFfn},
    {.name = "activated", .dropped_from = Tier::kNorms},
    {.name = "sum", .dropped_from = Tier::kBlock},  // post-norm: the input of norm2
    CrossAttention::kSlots[0],
    CrossAttention::kSlots[1],
    CrossAttention::kSlots[2],
    CrossAttention::kSlots[3],
    CrossAttention::kSlots[4],
}};

// Indices of the dropout masks of a block.
constexpr int64_t kAttentionDropout = 0;
constexpr int64_t kActivationDropout = 1;
constexpr int64_t kFfnDropout = 2;
constexpr int64_t kCrossDropout = 3;

double result_deviation(int64_t inputs, const TransformerBlockOptions& options) {
  if (options.deviation > 0.0) return options.deviation;
  return 1.0 /
         std::sqrt(static_cast<double>(inputs) * 2.0 * static_cast<double>(options.num_layers));
}

CrossAttentionOptions cross_options(const TransformerBlockOptions& options) {
  return {.width = options.width,
          .seen_width = options.seen_width,
          .num_heads = options.attention.num_heads,
          .dropout = options.dropout,
          .norm = options.norm,
          .norm_epsilon = options.norm_epsilon,
          .deviation = options.deviation,
          .result_deviation = result_deviation(options.width, options),
          .first_slot = kCross,
          .dropout_index = kCrossDropout,
          .has_key_bias = options.has_key_bias};
}

}  // namespace

TransformerBlock::TransformerBlock(ParameterStore& store, const std::string& name,
                                   const TransformerBlockOptions& options)
    : options_(options),
      norm1_(store, name + ".norm1", options.width, options.norm, options.norm_epsilon),
      qkv_(store, name + ".attention.qkv",
           {.inputs = options.width,
            .outputs = 3 * options.width,
            .deviation = options.deviation,
            .unbiased_begin = options.width,
            .unbiased_end = (options.has_key_bias ? 1 : 2) * options.width}),
      out_(store, name + ".attention.out", options.width, options.width,
           result_deviation(options.width, options)),
      norm2_(store, name + ".norm2", options.width, options.norm, options.norm_epsilon),
      ffn1_(store, name + ".ffn.in", options.width, options.hidden, options.deviation),
      ffn2_(store, name + ".ffn.out", options.hidden, options.width,
            result_deviation(options.hidden, options)) {
  if (options.seen_width == 0) return;
  SOTTO_ASSERT(options.norm_first, "cross-attention in a block with norms after its parts");
  cross_.emplace(store, name + ".cross", cross_options(options));
}

at::Tensor TransformerBlock::forward(at::Tensor x, const Context& context, Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kForward));
  LayerTape& tape = tapes.open(context.layer, kSlots, context.has_backward());
  tape.put(kInput, {std::move(x)});
  at::Tensor y = sum(context, tape);
  if (!options_.norm_first) {
    // The input of the norm is needed in backward, its result is the input of the next layer.
    const at::Tensor& before = tape.get(kSum, [&] { return Tensors{std::move(y)}; }).front();
    y = tape.get(kNorm2, [&] { return norm2_.forward(before); }).front();
    tape.settle(kNorm2);
    tape.settle(kSum);
  }
  tape.settle(kInput);
  if (!context.has_backward()) tapes.close(context.layer);
  return y;
}

at::Tensor TransformerBlock::backward(at::Tensor dy, const Context& context, Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kBackward));
  LayerTape& tape = tapes.layer(context.layer);
  tape.begin_backward();
  at::Tensor dx = options_.norm_first ? backward_norm_first(std::move(dy), context, tape)
                                      : backward_norm_last(std::move(dy), context, tape);
  tapes.close(context.layer);
  return dx;
}

Dropped TransformerBlock::activation_dropout(const Context& context) const {
  return {.packing = context.packing,
          .mask = context.dropout(kActivationDropout, options_.activation_dropout)};
}

const at::Tensor& TransformerBlock::attention_input(LayerTape& tape) const {
  const at::Tensor& x = tape.kept(kInput).front();
  if (!options_.norm_first) return x;
  return tape.get(kNorm1, [&] { return norm1_.forward(x); }).front();
}

const at::Tensor& TransformerBlock::qkv(LayerTape& tape) const {
  return tape
      .get(kQkv,
           [&] {
             at::Tensor result = qkv_.forward(attention_input(tape));
             if (options_.norm_first) tape.settle(kNorm1);
             return Tensors{std::move(result)};
           })
      .front();
}

const LayerTape::Tensors& TransformerBlock::attention(const Context& context,
                                                      LayerTape& tape) const {
  return tape.get(kAttention, [&] {
    Attention::Result result = Attention::forward(qkv(tape), context.packing, options_.attention);
    tape.settle(kQkv);
    return Tensors{std::move(result.y), std::move(result.softmax)};
  });
}

const at::Tensor& TransformerBlock::middle(const Context& context, LayerTape& tape) const {
  return tape
      .get(kMiddle,
           [&] {
             at::Tensor result = out_.forward(attention(context, tape).front());
             tape.settle(kAttention);
             ResidualAdd::accumulate_dropped(result, tape.kept(kInput).front(), context.packing,
                                             context.dropout(kAttentionDropout, options_.dropout));
             return Tensors{std::move(result)};
           })
      .front();
}

const LayerTape::Tensors& TransformerBlock::normed_middle(const Context& context,
                                                          LayerTape& tape) const {
  const Norm& norm = options_.norm_first ? norm2_ : norm1_;
  return tape.get(options_.norm_first ? kNorm2 : kNorm1,
                  [&] { return norm.forward(crossed(context, tape)); });
}

const at::Tensor& TransformerBlock::crossed(const Context& context, LayerTape& tape) const {
  const auto before = [&]() -> const at::Tensor& { return middle(context, tape); };
  return cross_ ? cross_->result(before, context, tape) : before();
}

const at::Tensor& TransformerBlock::hidden(const Context& context, LayerTape& tape) const {
  return tape
      .get(kHidden,
           [&] {
             at::Tensor result = ffn1_.forward(normed_middle(context, tape).front());
             if (options_.norm_first) tape.settle(kNorm2);
             return Tensors{std::move(result)};
           })
      .front();
}

const at::Tensor& TransformerBlock::activated(const Context& context, LayerTape& tape) const {
  return tape
      .get(kActivated,
           [&] {
             const Dropped dropped = activation_dropout(context);
             at::Tensor result = activate(options_.activation, hidden(context, tape), &dropped);
             tape.settle(kHidden);
             return Tensors{std::move(result)};
           })
      .front();
}

at::Tensor TransformerBlock::sum(const Context& context, LayerTape& tape) const {
  at::Tensor result = ffn2_.forward(activated(context, tape));
  tape.settle(kActivated);
  ResidualAdd::accumulate_dropped(
      result, options_.norm_first ? crossed(context, tape) : normed_middle(context, tape).front(),
      context.packing, context.dropout(kFfnDropout, options_.dropout));
  if (!options_.norm_first) tape.settle(kNorm1);
  if (cross_) cross_->settle(tape);
  tape.settle(kMiddle);
  return result;
}

at::Tensor TransformerBlock::feed_forward_backward(const at::Tensor& dy, const Context& context,
                                                   LayerTape& tape, Tensors& normed) const {
  // Recomputes first: the norm needed for it leaves a gap of exactly the size of the masked
  // gradient.
  const at::Tensor& activation = activated(context, tape);
  at::Tensor d_result =
      dropped_gradient(dy, context, context.dropout(kFfnDropout, options_.dropout));
  ffn2_.accumulate(d_result, activation);
  tape.release(kActivated);
  at::Tensor d_hidden = ffn2_.input_gradient(d_result);  // [N, H]
  d_result.reset();
  const Dropped dropped = activation_dropout(context);
  activation_backward(options_.activation, d_hidden, hidden(context, tape), &dropped);
  tape.release(kHidden);

  const size_t slot = options_.norm_first ? kNorm2 : kNorm1;
  normed_middle(context, tape);
  normed = tape.take(slot);
  ffn1_.accumulate(d_hidden, normed.front());
  normed.front().reset();
  return ffn1_.input_gradient(d_hidden);
}

at::Tensor TransformerBlock::attention_backward(const at::Tensor& dy, const Context& context,
                                                LayerTape& tape) const {
  const at::Tensor& qkv_rows = qkv(tape);  // first, as in feed_forward_backward()
  const Tensors& kept = attention(context, tape);
  at::Tensor d_result =
      dropped_gradient(dy, context, context.dropout(kAttentionDropout, options_.dropout));
  out_.accumulate(d_result, kept.front());
  at::Tensor d_attention = out_.input_gradient(d_result);  // [N, D]
  d_result.reset();
  const at::Tensor dqkv = Attention::backward(
      {.dy = d_attention, .qkv = qkv_rows, .y = kept.at(0), .softmax = kept.at(1)}, context.packing,
      options_.attention);  // [N, 3 D]
  d_attention.reset();
  tape.release(kAttention);
  tape.release(kQkv);
  qkv_.accumulate(dqkv, attention_input(tape));
  return qkv_.input_gradient(dqkv);
}

// Each tensor is freed after its last use, since the peak is determined by the tensors alive here.
at::Tensor TransformerBlock::backward_norm_first(at::Tensor dy, const Context& context,
                                                 LayerTape& tape) const {
  Tensors normed;
  at::Tensor d_normed = feed_forward_backward(dy, context, tape, normed);
  at::Tensor d_middle = norm2_.backward(d_normed, crossed(context, tape), normed, &dy);
  d_normed.reset();
  dy.reset();
  normed.clear();
  if (cross_) {
    cross_->release(tape);
    d_middle = cross_->backward(
        d_middle, [&]() -> const at::Tensor& { return middle(context, tape); }, context, tape);
  }
  tape.release(kMiddle);

  at::Tensor d_input = attention_backward(d_middle, context, tape);
  at::Tensor dx = norm1_.backward(d_input, tape.kept(kInput).front(), tape.kept(kNorm1), &d_middle);
  tape.release(kNorm1);
  tape.release(kInput);
  return dx;
}

at::Tensor TransformerBlock::backward_norm_last(at::Tensor dy, const Context& context,
                                                LayerTape& tape) const {
  const at::Tensor& before = tape.get(kSum, [&] { return Tensors{sum(context, tape)}; }).front();
  const Tensors& result = tape.get(kNorm2, [&] { return norm2_.forward(before); });
  at::Tensor d_sum = norm2_.backward(dy, before, result);
  dy.reset();
  tape.release(kNorm2);
  tape.release(kSum);

  Tensors normed;
  at::Tensor d_normed = feed_forward_backward(d_sum, context, tape, normed);
  ResidualAdd::accumulate(d_normed, d_sum);
  d_sum.reset();
  at::Tensor d_middle = norm1_.backward(d_normed, middle(context, tape), normed);
  d_normed.reset();
  normed.clear();
  tape.release(kMiddle);

  at::Tensor dx = attention_backward(d_middle, context, tape);
  tape.release(kInput);
  ResidualAdd::accumulate(dx, d_middle);
  return dx;
}

}  // namespace sotto::nn
