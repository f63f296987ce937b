#include "sotto/nn/attention_decoder.h"

#include <utility>

namespace sotto::nn {

namespace {

TransformerStack::Options decoder_stack(const AttentionDecoderOptions& options) {
  return {.block = {.width = options.width,
                    .hidden = options.hidden,
                    .attention = {.num_heads = options.heads, .right = 0},
                    .dropout = options.dropout,
                    .activation_dropout = options.dropout,
                    .seen_width = options.seen_width,
                    .num_layers = options.layers},
          .first_layer = options.first_layer};
}

}  // namespace

AttentionDecoder::AttentionDecoder(ParameterStore& store, const std::string& name,
                                   const AttentionDecoderOptions& options)
    : table_(store.declare({.name = name + ".embedding.weight",
                            .shape = {options.vocabulary, options.width},
                            .deviation = TokenEmbedding::kDeviation})),
      embedding_(store, table_, name + ".positions",
                 {.positions = {.kind = options.positions,
                                .width = options.width,
                                .max_frames = options.max_tokens},
                  .dropout = options.dropout,
                  .compute = options.compute}),
      blocks_(store, name + ".layers", decoder_stack(options)),
      head_(store, name + ".head", table_,
            {.width = options.width, .loss = {.smoothing = options.label_smoothing}}),
      head_layer_(options.first_layer + options.layers) {}

at::Tensor AttentionDecoder::forward(const data::DecoderPack& pack, std::span<const float> weights,
                                     const SeenPack& seen, const StepContext& step,
                                     Tape& tape) const {
  const Context context = context_of(pack.packing, seen, step);
  at::Tensor x = embedding_.forward(pack.inputs.device_values(), context);
  x = blocks_.forward(std::move(x), context, tape);
  return head_.forward(std::move(x), {.targets = pack.next, .weights = weights}, context, tape);
}

void AttentionDecoder::backward(const data::DecoderPack& pack, const SeenPack& seen,
                                const StepContext& step, Tape& tape) const {
  const Context context = context_of(pack.packing, seen, step);
  at::Tensor dx = head_.backward(context, tape);
  dx = blocks_.backward(std::move(dx), context, tape);
  embedding_.backward(std::move(dx), pack.inputs.device_values(), context);
}

at::Tensor AttentionDecoder::decode(const at::Tensor& tokens, const kernels::Packing& packing,
                                    const SeenPack& seen) const {
  Tape tape;
  const Context context = context_of(packing, seen, {.is_training = false});
  return blocks_.forward(embedding_.forward(tokens, context), context, tape);
}

at::Tensor AttentionDecoder::evaluate(const data::DecoderPack& pack, const SeenPack& seen) const {
  const at::Tensor x = decode(pack.inputs.device_values(), pack.packing, seen);
  return head_.evaluate(x, pack.next, pack.packing);
}

}  // namespace sotto::nn
