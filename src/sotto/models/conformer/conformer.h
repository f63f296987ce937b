// The network `conformer`: log-mel features, 2-D subsampling, Conformer blocks, and one or both of
// a CTC head and an attention decoder.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>

#include "sotto/core/config/options.h"
#include "sotto/kernels/features/log_mel.h"
#include "sotto/models/model.h"
#include "sotto/models/parts/conformer_encoder.h"
#include "sotto/nn/fronts/image_subsampling.h"
#include "sotto/nn/fronts/spec_augment.h"
#include "sotto/nn/heads/attention_decoder.h"
#include "sotto/nn/heads/ctc_head.h"

namespace sotto::models {

// What the network is trained for: alignment by CTC, the next token by the decoder, or both.
enum class ConformerObjective { kCtc, kAttention, kJoint };

inline constexpr std::array kConformerObjectives = {
    Named{"ctc", ConformerObjective::kCtc}, Named{"attention", ConformerObjective::kAttention},
    Named{"joint", ConformerObjective::kJoint}};

struct ConformerOptions {
  // Features of the waveform; refused where the data has stored features and these are not the
  // defaults.
  kernels::LogMelOptions features;
  // Masks on normalised features, including stored ones.
  nn::SpecAugmentOptions spec_augment;
  nn::ImageSubsamplingKind subsampling = nn::ImageSubsamplingKind::kPlain;
  int64_t subsampling_factor = 4;
  // 0: as many as the width.
  int64_t subsampling_channels = 0;
  int64_t layers = 12;
  int64_t width = 256;
  int64_t heads = 4;
  // Width inside the feed-forward parts.
  int64_t hidden = 1024;
  int64_t kernel = 31;
  nn::InnerNormKind convolution_norm = nn::InnerNormKind::kLayer;
  // Biases in the products and convolutions of a block.
  bool biases = true;
  double dropout = 0.1;
  ConformerObjective objective = ConformerObjective::kJoint;
  // Share of CTC in a joint loss.
  double ctc_weight = 0.3;
  int64_t decoder_layers = 6;
  double label_smoothing = 0.1;

  bool has_ctc() const { return objective != ConformerObjective::kAttention; }
  bool has_decoder() const { return objective != ConformerObjective::kCtc; }
  int64_t channels() const { return subsampling_channels == 0 ? width : subsampling_channels; }

  void visit(OptionVisitor& visitor);
  void validate() const;
};

class Conformer : public Model {
 public:
  // Declares and allocates all parameters; on Meta they have no storage. `compute`: the type of
  // activations.
  Conformer(const ConformerOptions& options, const DataShape& shape,
            const nn::ParameterAllocation& allocation, at::ScalarType compute = at::kFloat);

  nn::ParameterStore& parameters() override { return store_; }
  data::ItemSize size_of(const data::ExampleSize& item) const override;
  Losses forward(const data::MicroBatch& batch, const nn::StepContext& step,
                 std::span<const float> weights, nn::Tape& tape) override;
  void backward(const data::MicroBatch& batch, const nn::StepContext& step,
                nn::Tape& tape) override;
  Recognition recognise(const data::MicroBatch& batch) override;

 private:
  // Returns the gradient [M, D] of the last block's result.
  at::Tensor backward_heads(const data::MicroBatch& batch, const nn::StepContext& step,
                            nn::Tape& tape) const;

  // Layers are numbered in this order: blocks, front end, CTC head, decoder.
  int64_t ctc_layer() const { return options_.layers + 1; }
  nn::AttentionDecoderOptions decoder_options(const DataShape& shape, at::ScalarType compute) const;

  ConformerOptions options_;
  nn::ParameterStore store_;
  ConformerEncoder encoder_;
  std::optional<nn::CtcHead> ctc_;
  std::optional<nn::AttentionDecoder> decoder_;
};

}  // namespace sotto::models
