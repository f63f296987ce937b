// The encoder of Conformers: log-mel features, 2-D subsampling, Conformer blocks. Its parameters
// are `subsampling.` and `layers.`. M frames of its result, D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/models/family.h"
#include "sotto/models/model.h"
#include "sotto/models/parts/speech_features.h"
#include "sotto/nn/blocks/conformer_stack.h"
#include "sotto/nn/context.h"
#include "sotto/nn/fronts/image_subsampling.h"
#include "sotto/nn/layers/inner_norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::models {

struct ConformerEncoderOptions {
  SpeechFeatureOptions features;
  nn::ImageSubsamplingKind subsampling = nn::ImageSubsamplingKind::kPlain;
  int64_t subsampling_factor = 4;
  int64_t subsampling_channels = 256;
  nn::ConformerStack::Options blocks;
  // Factor and dropout of the first block's input.
  double input_scale = 1.0;
  double input_dropout = 0.1;
};

// Returns the setting `convolution_norm` where results depend on the split of a step.
std::optional<SplitDependence> split_dependence_of(nn::InnerNormKind convolution_norm);

class ConformerEncoder {
 public:
  // `compute`: the type of activations.
  ConformerEncoder(nn::ParameterStore& store, const ConformerEncoderOptions& options,
                   const DataShape& shape, const nn::ParameterAllocation& allocation,
                   at::ScalarType compute);

  // Returns the number of frames of samples, or of stored frames.
  int64_t num_frames(int64_t rows) const;

  // Returns the last block's result [M, D]; puts the packings on the tape, the last of which is
  // that of the result.
  at::Tensor forward(const data::MicroBatch& batch, const nn::StepContext& step,
                     nn::Tape& tape) const;
  // Accumulates into the parameters' gradients for dx [M, D].
  void backward(at::Tensor dx, const nn::StepContext& step, nn::Tape& tape) const;

 private:
  // The front end is the layer after the blocks.
  int64_t front_layer() const { return blocks_.num_layers(); }
  // Frozen blocks freeze the front end.
  bool is_front_frozen() const { return options_.blocks.num_frozen > 0; }
  nn::Context front_context(const nn::StepContext& step, const nn::Tape& tape) const;
  kernels::Dropout::Mask input_mask(const nn::Context& context) const;

  ConformerEncoderOptions options_;
  SpeechFeatures features_;
  nn::ImageSubsampling subsampling_;
  nn::ConformerStack blocks_;
};

}  // namespace sotto::models
