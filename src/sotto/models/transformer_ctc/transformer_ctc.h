// The network `transformer_ctc`: features normalised per utterance and masked in training,
// subsampling, positions, transformer blocks, a CTC head.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/kernels/features/log_mel.h"
#include "sotto/models/model.h"
#include "sotto/models/parts/speech_features.h"
#include "sotto/nn/blocks/transformer_stack.h"
#include "sotto/nn/fronts/spec_augment.h"
#include "sotto/nn/fronts/subsampling.h"
#include "sotto/nn/heads/ctc_head.h"
#include "sotto/nn/layers/positions.h"

namespace sotto::models {

struct TransformerCtcOptions {
  // Features of the waveform; refused where the data has stored features and these are not the
  // defaults.
  kernels::LogMelOptions features;
  // Masks on normalised features, including stored ones.
  nn::SpecAugmentOptions spec_augment;
  nn::SubsamplingKind subsampling = nn::SubsamplingKind::kConvolution;
  int64_t subsampling_factor = 4;
  int64_t layers = 8;
  int64_t width = 256;
  int64_t heads = 4;
  // Width inside the feed-forward part.
  int64_t hidden = 1024;
  double dropout = 0.1;
  nn::Activation activation = nn::Activation::kGelu;
  nn::NormKind norm = nn::NormKind::kLayer;
  // Norms before both parts of a block, or after them.
  bool norm_first = true;
  nn::PositionKind positions = nn::PositionKind::kSinusoidal;
  // Maximum utterance length for learned positions, in frames after subsampling.
  int64_t max_frames = 1500;
  // Number of previous and following frames that a frame attends to; -1: all.
  int64_t attention_left = -1;
  int64_t attention_right = -1;

  void visit(OptionVisitor& visitor);
  void validate() const;
};

class TransformerCtc : public Model {
 public:
  // Declares and allocates all parameters; on Meta they have no storage. `compute`: the type of
  // activations.
  TransformerCtc(const TransformerCtcOptions& options, const DataShape& shape,
                 const nn::ParameterAllocation& allocation, at::ScalarType compute = at::kFloat);

  nn::ParameterStore& parameters() override { return store_; }
  data::ItemSize size_of(const data::ExampleSize& item) const override;
  Losses forward(const data::MicroBatch& batch, const nn::StepContext& step,
                 std::span<const float> weights, nn::Tape& tape) override;
  void backward(const data::MicroBatch& batch, const nn::StepContext& step,
                nn::Tape& tape) override;
  Recognition recognise(const data::MicroBatch& batch) override;

 private:
  // Computes the last block's result [M, D] from the values; puts the packings on the tape.
  at::Tensor encode(const data::MicroBatch& batch, const nn::StepContext& step,
                    nn::Tape& tape) const;

  int64_t front_layer() const { return blocks_.num_layers(); }
  int64_t head_layer() const { return blocks_.num_layers() + 1; }

  TransformerCtcOptions options_;
  SpeechFeatures features_;
  nn::ParameterStore store_;
  nn::Subsampling subsampling_;
  nn::Positions positions_;
  nn::TransformerStack blocks_;
  nn::CtcHead head_;
};

}  // namespace sotto::models
