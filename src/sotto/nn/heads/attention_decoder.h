// An autoregressive decoder that attends to an encoder's result: token embedding, blocks with self-
// and cross-attention, output projection tied to the embedding, cross-entropy. L tokens of the
// decoder's pack, D width, V entries.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/nn/blocks/transformer_stack.h"
#include "sotto/nn/decoding_step.h"
#include "sotto/nn/fronts/token_embedding.h"
#include "sotto/nn/heads/lm_head.h"

namespace sotto::nn {

struct AttentionDecoderOptions {
  int64_t vocabulary = 32;
  int64_t layers = 2;
  int64_t width = 256;
  int64_t heads = 4;
  // Width inside the feed-forward part.
  int64_t hidden = 1024;
  // Width of the encoder's result.
  int64_t seen_width = 256;
  double dropout = 0.1;
  double activation_dropout = 0.1;
  kernels::CrossEntropy::Options loss = {};
  // Keys have a bias, as queries and values do.
  bool has_key_bias = true;
  // Standard deviation of the blocks' initial matrices; 0: derived from their inputs and number.
  double deviation = 0.0;
  // Probability that a step skips a block.
  double layer_drop = 0.0;
  // Number of first blocks that are not trained, with the embedding. The encoder's result then has
  // no gradient from them: it must be frozen as well.
  int64_t num_frozen = 0;
  PositionKind positions = PositionKind::kSinusoidal;
  // Maximum tokens per utterance for learned positions.
  int64_t max_tokens = 448;
  // Number of its first block in the network; its head follows the blocks.
  int64_t first_layer = 0;
  // Type of activations.
  at::ScalarType compute = at::kFloat;
};

class AttentionDecoder {
 public:
  // Parameters are named NAME.embedding.weight, NAME.layers.0. and so on.
  AttentionDecoder(ParameterStore& store, const std::string& name,
                   const AttentionDecoderOptions& options);

  // Returns the loss [B] of each utterance. `seen`: the encoder's result and its pack.
  at::Tensor forward(const data::DecoderPack& pack, std::span<const float> weights,
                     const SeenPack& seen, const StepContext& step, Tape& tape) const;
  // Accumulates into the gradients of the parameters and of the encoder's result.
  void backward(const data::DecoderPack& pack, const SeenPack& seen, const StepContext& step,
                Tape& tape) const;

  // Returns the prefixes of parameters that are not trained with the first blocks frozen.
  static std::vector<std::string> frozen_prefixes(const std::string& name, int64_t num_frozen);

  // Returns the logits [L, V] of all tokens, for tests.
  at::Tensor logits(const data::DecoderPack& pack, const SeenPack& seen) const;

  // Returns the losses only, without label smoothing.
  at::Tensor evaluate(const data::DecoderPack& pack, const SeenPack& seen) const;

  // Decoding token by token. Returns the caches of up to `num_rows` tokens that see an encoder's
  // result [M, E].
  std::vector<BlockCache> make_caches(int64_t num_rows, const at::Tensor& seen) const;
  // Returns the logits [H, V] of what follows one token of each hypothesis, [H] int32, all at the
  // same position. Weights are the mean over the upper half of the blocks.
  at::Tensor step(const at::Tensor& tokens, int64_t position, std::span<const BlockCache> caches,
                  DecodingStep step) const;

 private:
  // Returns the last block's result [L, D] without training.
  at::Tensor decode(const data::DecoderPack& pack, const SeenPack& seen) const;

  Context context_of(const kernels::Packing& packing, const SeenPack& seen,
                     const StepContext& step) const {
    return {.step = step, .packing = packing, .layer = head_layer_, .seen = &seen};
  }

  Parameter& table_;  // [V, D]
  TokenEmbedding embedding_;
  TransformerStack blocks_;
  LmHead head_;
  int64_t head_layer_;
  bool is_embedding_frozen_;
};

}  // namespace sotto::nn
