#include "sotto/nn/heads/attention_decoder.h"

#include <utility>

namespace sotto::nn {

namespace {

TransformerStack::Options decoder_stack(const AttentionDecoderOptions& options) {
  return {.block = {.width = options.width,
                    .hidden = options.hidden,
                    .attention = {.num_heads = options.heads, .right = 0},
                    .dropout = options.dropout,
                    .activation_dropout = options.activation_dropout,
                    .seen_width = options.seen_width,
                    .num_layers = options.layers,
                    .deviation = options.deviation,
                    .has_key_bias = options.has_key_bias},
          .layer_drop = options.layer_drop,
          .num_frozen = options.num_frozen,
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
      head_(store, name + ".head", table_, {.width = options.width, .loss = options.loss}),
      head_layer_(options.first_layer + options.layers),
      is_embedding_frozen_(options.num_frozen > 0) {}

std::vector<std::string> AttentionDecoder::frozen_prefixes(const std::string& name,
                                                           int64_t num_frozen) {
  if (num_frozen == 0) return {};
  std::vector<std::string> prefixes = {name + ".embedding.", name + ".positions."};
  for (int64_t block = 0; block < num_frozen; ++block)
    prefixes.push_back(prefix_of_block(name + ".layers", block));
  return prefixes;
}

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
  if (is_embedding_frozen_) return;
  embedding_.backward(std::move(dx), pack.inputs.device_values(), context);
}

std::vector<BlockCache> AttentionDecoder::make_caches(int64_t num_rows,
                                                      const at::Tensor& seen) const {
  std::vector<BlockCache> caches;
  for (int64_t block = 0; block < blocks_.num_layers(); ++block)
    caches.push_back(blocks_.block(block).make_cache(num_rows, seen));
  return caches;
}

at::Tensor AttentionDecoder::step(const at::Tensor& tokens, int64_t position,
                                  std::span<const BlockCache> caches, DecodingStep step) const {
  at::Tensor x = embedding_.step(tokens, position);
  at::Tensor* const weights = std::exchange(step.weights, nullptr);
  const int64_t num_blocks = blocks_.num_layers();
  const int64_t first_weighed = num_blocks / 2;
  step.weight = 1.0 / static_cast<double>(num_blocks - first_weighed);
  for (int64_t block = 0; block < num_blocks; ++block) {
    if (block == first_weighed) step.weights = weights;
    x = blocks_.block(block).step(x, caches[static_cast<size_t>(block)], step);
  }
  return head_.logits(x);
}

at::Tensor AttentionDecoder::decode(const data::DecoderPack& pack, const SeenPack& seen) const {
  Tape tape;
  const Context context = context_of(pack.packing, seen, {.is_training = false});
  return blocks_.forward(embedding_.forward(pack.inputs.device_values(), context), context, tape);
}

at::Tensor AttentionDecoder::logits(const data::DecoderPack& pack, const SeenPack& seen) const {
  return head_.logits(decode(pack, seen));
}

at::Tensor AttentionDecoder::evaluate(const data::DecoderPack& pack, const SeenPack& seen) const {
  return head_.evaluate(decode(pack, seen), pack.next, pack.packing);
}

}  // namespace sotto::nn
