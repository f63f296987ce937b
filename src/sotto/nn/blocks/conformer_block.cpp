#include "sotto/nn/blocks/conformer_block.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

namespace sotto::nn {

namespace {

using device::MomentScope;
using device::Phase;

// First slots of the parts; the block's own are the input and the norm at its end.
constexpr size_t kInput = 0;
constexpr size_t kFfn1 = 1;
constexpr size_t kAttention = kFfn1 + FeedForward::kSlots.size();
constexpr size_t kConvolution = kAttention + RelativeAttention::kSlots.size();
constexpr size_t kFfn2 = kConvolution + ConvolutionModule::kSlots.size();
constexpr size_t kNorm = kFfn2 + FeedForward::kSlots.size();
constexpr size_t kNumSlots = kNorm + 1;

constexpr std::array<SlotSpec, kNumSlots> all_slots() {
  std::array<SlotSpec, kNumSlots> slots = {};
  const auto place = [&](size_t first, std::span<const SlotSpec> of_part) {
    std::ranges::copy(of_part, slots.begin() + static_cast<std::ptrdiff_t>(first));
  };
  slots[kInput] = {.name = "input"};
  place(kFfn1, FeedForward::kSlots);
  place(kAttention, RelativeAttention::kSlots);
  place(kConvolution, ConvolutionModule::kSlots);
  place(kFfn2, FeedForward::kSlots);
  slots[kNorm] = {.name = "norm", .dropped_from = Tier::kNorms};
  return slots;
}

constexpr std::array<SlotSpec, kNumSlots> kConformerSlots = all_slots();

// Indices of the dropout masks of a block; a feed-forward part has two.
constexpr int64_t kFfn1Dropout = 0;
constexpr int64_t kAttentionDropout = 2;
constexpr int64_t kConvolutionDropout = 3;
constexpr int64_t kFfn2Dropout = 4;

constexpr double kHalfStep = 0.5;

double result_deviation(int64_t inputs, const ConformerBlockOptions& options) {
  return 1.0 /
         std::sqrt(static_cast<double>(inputs) * 4.0 * static_cast<double>(options.num_layers));
}

FeedForwardOptions feed_forward_options(const ConformerBlockOptions& options, size_t first_slot,
                                        int64_t dropout_index) {
  return {.width = options.width,
          .hidden = options.hidden,
          .dropout = options.dropout,
          .activation_dropout = options.activation_dropout,
          .scale = kHalfStep,
          .has_biases = options.has_biases,
          .result_deviation = result_deviation(options.hidden, options),
          .first_slot = first_slot,
          .dropout_index = dropout_index};
}

}  // namespace

ConformerBlock::ConformerBlock(ParameterStore& store, const std::string& name,
                               const Options& options)
    : ffn1_(store, name + ".ffn1", feed_forward_options(options, kFfn1, kFfn1Dropout)),
      attention_(store, name + ".attention",
                 {.width = options.width,
                  .attention = options.attention,
                  .dropout = options.dropout,
                  .has_biases = options.has_biases,
                  .result_deviation = result_deviation(options.width, options),
                  .first_slot = kAttention,
                  .dropout_index = kAttentionDropout}),
      convolution_(store, name + ".convolution",
                   {.width = options.width,
                    .kernel = options.kernel,
                    .inner_norm = options.inner_norm,
                    .dropout = options.dropout,
                    .has_biases = options.has_biases,
                    .result_deviation = result_deviation(options.width, options),
                    .first_slot = kConvolution,
                    .dropout_index = kConvolutionDropout}),
      ffn2_(store, name + ".ffn2", feed_forward_options(options, kFfn2, kFfn2Dropout)),
      norm_(store, name + ".norm", options.width, NormKind::kLayer) {}

const at::Tensor& ConformerBlock::fed_first(const Context& context, LayerTape& tape) const {
  return ffn1_.result([&]() -> const at::Tensor& { return tape.kept(kInput).front(); }, context,
                      tape);
}

const at::Tensor& ConformerBlock::attended(const Context& context, LayerTape& tape) const {
  return attention_.result([&]() -> const at::Tensor& { return fed_first(context, tape); }, context,
                           tape);
}

const at::Tensor& ConformerBlock::convolved(const Context& context, LayerTape& tape) const {
  return convolution_.result([&]() -> const at::Tensor& { return attended(context, tape); },
                             context, tape);
}

const at::Tensor& ConformerBlock::fed_last(const Context& context, LayerTape& tape) const {
  return ffn2_.result([&]() -> const at::Tensor& { return convolved(context, tape); }, context,
                      tape);
}

at::Tensor ConformerBlock::forward(at::Tensor x, const Context& context, Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kForward));
  LayerTape& tape = tapes.open(context.layer, kConformerSlots, context.has_backward());
  tape.put(kInput, {std::move(x)});
  // Each result is freed after the part behind it has used it.
  attended(context, tape);
  ffn1_.settle(tape);
  tape.settle(kInput);
  convolved(context, tape);
  attention_.settle(tape);
  const at::Tensor& before = fed_last(context, tape);
  convolution_.settle(tape);
  at::Tensor y = tape.get(kNorm, [&] { return norm_.forward(before); }).front();
  tape.settle(kNorm);
  ffn2_.settle(tape);
  if (!context.has_backward()) tapes.close(context.layer);
  return y;
}

at::Tensor ConformerBlock::backward(at::Tensor dy, const Context& context, Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kBackward));
  LayerTape& tape = tapes.layer(context.layer);
  tape.begin_backward();
  const auto own_input = [&]() -> const at::Tensor& { return tape.kept(kInput).front(); };
  const auto of_attention = [&]() -> const at::Tensor& { return fed_first(context, tape); };
  const auto of_convolution = [&]() -> const at::Tensor& { return attended(context, tape); };
  const auto of_ffn2 = [&]() -> const at::Tensor& { return convolved(context, tape); };

  const at::Tensor& before = fed_last(context, tape);
  at::Tensor d = norm_.backward(dy, before, tape.get(kNorm, [&] { return norm_.forward(before); }));
  dy.reset();
  tape.release(kNorm);
  ffn2_.release(tape);
  d = ffn2_.backward(d, of_ffn2, context, tape);
  convolution_.release(tape);
  d = convolution_.backward(d, of_convolution, context, tape);
  attention_.release(tape);
  d = attention_.backward(d, of_attention, context, tape);
  ffn1_.release(tape);
  d = ffn1_.backward(d, own_input, context, tape);
  tapes.close(context.layer);
  return d;
}

}  // namespace sotto::nn
