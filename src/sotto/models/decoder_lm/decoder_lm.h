// The network `decoder_lm`: a language model of pre-norm transformer blocks with causal attention.
// N tokens, D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/core/config/options.h"
#include "sotto/models/model.h"
#include "sotto/nn/blocks/transformer_stack.h"
#include "sotto/nn/fronts/token_embedding.h"
#include "sotto/nn/heads/lm_head.h"

namespace sotto::models {

struct DecoderLmOptions {
  int64_t layers = 6;
  int64_t width = 512;
  int64_t heads = 8;
  // Width inside the feed-forward part.
  int64_t hidden = 2048;
  double dropout = 0.1;
  nn::Activation activation = nn::Activation::kGelu;
  nn::NormKind norm = nn::NormKind::kLayer;
  nn::PositionKind positions = nn::PositionKind::kSinusoidal;
  // Maximum length of a row of text, for learned positions.
  int64_t max_tokens = 2048;
  // The embedding table is also the weight of the output projection.
  bool tied = true;
  // Number of previous tokens that a token attends to; -1: all.
  int64_t attention_left = -1;
  // How attention and the loss are computed. The alternatives to the defaults need more memory;
  // they are what other programs do, for comparison.
  kernels::Attention::Variant attention = kernels::Attention::Variant::kTiled;
  kernels::CrossEntropy::Variant logits = kernels::CrossEntropy::Variant::kChunked;
  double label_smoothing = 0.0;
  // Tokens whose logits are computed at once, in multiples of 64; 0: as many as take 52 MiB.
  int64_t loss_rows = 0;

  void visit(OptionVisitor& visitor);
  void validate() const;
};

class DecoderLm : public Model {
 public:
  // Declares and allocates all parameters; on Meta they have no storage. `compute`: the type of
  // activations.
  DecoderLm(const DecoderLmOptions& options, const DataShape& shape,
            const nn::ParameterAllocation& allocation, at::ScalarType compute = at::kFloat);

  nn::ParameterStore& parameters() override { return store_; }
  data::ItemSize size_of(const data::ExampleSize& item) const override {
    return {.frames = item.rows, .labels = item.labels};
  }
  Losses forward(const data::MicroBatch& batch, const nn::StepContext& step,
                 std::span<const float> weights, nn::Tape& tape) override;
  void backward(const data::MicroBatch& batch, const nn::StepContext& step,
                nn::Tape& tape) override;
  Recognition recognise(const data::MicroBatch& batch) override;

  // Returns logits [N, V] of the batch, one row per token.
  at::Tensor logits(const data::MicroBatch& batch);

 private:
  // Computes the last block's result [N, D] from tokens.
  at::Tensor decode(const data::MicroBatch& batch, const nn::StepContext& step,
                    nn::Tape& tape) const;
  int64_t head_tape() const { return num_layers(); }

  DecoderLmOptions options_;
  nn::ParameterStore store_;
  nn::Parameter& table_;   // [V, D]
  nn::Parameter& output_;  // [V, D]; same as table_ where the two are tied
  nn::TokenEmbedding embedding_;
  nn::TransformerStack blocks_;
  nn::LmHead head_;
};

}  // namespace sotto::models
