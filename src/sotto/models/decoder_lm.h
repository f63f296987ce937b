// The network `decoder_lm`: a language model of pre-norm transformer blocks in which a token sees
// those before it. N tokens, D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/core/config/options.h"
#include "sotto/models/model.h"
#include "sotto/nn/lm_head.h"
#include "sotto/nn/token_embedding.h"
#include "sotto/nn/transformer_stack.h"

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
  // Of learned positions: the longest row of text.
  int64_t max_tokens = 2048;
  // Whether the table of tokens is the output's weight too.
  bool tied = true;
  // Tokens that a token sees before itself; -1: all.
  int64_t attention_left = -1;
  double label_smoothing = 0.0;
  // Tokens whose logits are there at once, in multiples of 64; 0: as many as take 52 MiB.
  int64_t loss_rows = 0;

  void visit(OptionVisitor& visitor);
  void validate() const;
};

class DecoderLm : public Model {
 public:
  // Declares all parameters and allocates them; on Meta a dry one. `compute`: the type of
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

  // Logits [N, V] of the batch, one row a token.
  at::Tensor logits(const data::MicroBatch& batch);

 private:
  // From tokens to the last block's result [N, D].
  at::Tensor decode(const data::MicroBatch& batch, const nn::StepContext& step,
                    nn::Tape& tape) const;
  int64_t head_tape() const { return num_layers(); }

  DecoderLmOptions options_;
  nn::ParameterStore store_;
  nn::Parameter& table_;   // [V, D]
  nn::Parameter& output_;  // [V, D]; the table where the two are tied
  nn::TokenEmbedding embedding_;
  nn::TransformerStack blocks_;
  nn::LmHead head_;
};

}  // namespace sotto::models
