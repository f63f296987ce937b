// Whisper: log-mel features, two convolutions, sinusoidal positions, an encoder of transformer
// blocks, and an attention decoder with learned positions. M encoder frames, L tokens, D width, V
// entries.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/models/model.h"
#include "sotto/models/whisper/whisper_features.h"
#include "sotto/models/whisper/whisper_options.h"
#include "sotto/nn/blocks/transformer_stack.h"
#include "sotto/nn/fronts/subsampling.h"
#include "sotto/nn/heads/attention_decoder.h"
#include "sotto/nn/layers/positions.h"
#include "sotto/nn/layers/stack_norm.h"

namespace sotto::models {

class Whisper : public Model {
 public:
  // Declares and allocates all parameters; on Meta they have no storage. `compute`: the type of
  // activations. Throws ConfigError for a vocabulary of another size.
  Whisper(const WhisperOptions& options, const DataShape& shape,
          const nn::ParameterAllocation& allocation, at::ScalarType compute = at::kFloat);

  nn::ParameterStore& parameters() override { return store_; }
  data::ItemSize size_of(const data::ExampleSize& item) const override;
  Losses forward(const data::MicroBatch& batch, const nn::StepContext& step,
                 std::span<const float> weights, nn::Tape& tape) override;
  void backward(const data::MicroBatch& batch, const nn::StepContext& step,
                nn::Tape& tape) override;
  Recognition recognise(const data::MicroBatch& batch) override;
  std::vector<NamedTensor> named_weights() override;

  // Returns the logits [L, V] of all tokens of the batch.
  at::Tensor logits(const data::MicroBatch& batch);

 private:
  // Layers are numbered in this order: the encoder's blocks, its front end, its norm, the decoder.
  int64_t front_layer() const { return options_.layers; }
  int64_t norm_layer() const { return options_.layers + 1; }
  bool is_front_frozen() const { return options_.num_frozen_layers() > 0; }

  nn::Context front_context(const nn::StepContext& step, const nn::Tape& tape) const;
  nn::Context norm_context(const nn::StepContext& step, const nn::Tape& tape) const;
  // The encoder's result as the decoder attends to it.
  nn::SeenPack seen_in(nn::Tape& tape) const;
  // Computes the encoder's result [M, D]; puts the packings on the tape.
  at::Tensor encode(const data::MicroBatch& batch, const nn::StepContext& step,
                    nn::Tape& tape) const;

  WhisperOptions options_;
  WhisperFeatures features_;
  nn::ParameterStore store_;
  nn::Subsampling subsampling_;
  nn::Positions positions_;
  nn::TransformerStack blocks_;
  nn::StackNorm norm_;
  nn::AttentionDecoder decoder_;
};

}  // namespace sotto::models
