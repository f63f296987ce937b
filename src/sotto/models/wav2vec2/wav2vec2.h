// wav2vec2 and XLS-R with a CTC head: convolutions over the waveform, a projection, masked spans, a
// positional convolution, transformer blocks, a projection to the vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/models/model.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"
#include "sotto/nn/blocks/transformer_stack.h"
#include "sotto/nn/fronts/feature_projection.h"
#include "sotto/nn/fronts/spec_mask.h"
#include "sotto/nn/fronts/wave_encoder.h"
#include "sotto/nn/heads/ctc_head.h"
#include "sotto/nn/layers/positional_convolution.h"

namespace sotto::models {

class Wav2Vec2 : public Model {
 public:
  // Declares and allocates all parameters; on Meta they have no storage. `compute`: the type of
  // activations.
  Wav2Vec2(const Wav2Vec2Options& options, const DataShape& shape,
           const nn::ParameterAllocation& allocation, at::ScalarType compute = at::kFloat);

  nn::ParameterStore& parameters() override { return store_; }
  data::ItemSize size_of(const data::ExampleSize& item) const override {
    return {.frames = waves_.num_frames(item.rows), .labels = item.labels};
  }
  Losses forward(const data::MicroBatch& batch, const nn::StepContext& step,
                 std::span<const float> weights, nn::Tape& tape) override;
  void backward(const data::MicroBatch& batch, const nn::StepContext& step,
                nn::Tape& tape) override;
  Recognition recognise(const data::MicroBatch& batch) override;
  std::vector<NamedTensor> named_weights() override;

  // Returns logits [M, V] of the batch, one row per frame.
  at::Tensor logits(const data::MicroBatch& batch);

 private:
  // Numbers of the layers after the blocks.
  enum Other : int64_t { kProjection, kPositions, kHead };
  int64_t tape_of(Other other) const { return num_layers() + other; }

  // Whether a part has a backward, which ends at the earliest part that does.
  bool trains_front() const { return options_.freeze_layers == 0; }
  bool trains_waves() const { return trains_front() && !options_.freeze_feature_encoder; }

  kernels::Packing frames_of(const data::MicroBatch& batch) const;
  // Returns samples [S] fp32, each utterance normalised to mean 0 and variance 1.
  at::Tensor normalised(const data::MicroBatch& batch) const;
  // Computes the last block's result [M, D] from the waveform; puts the packing on the tape.
  at::Tensor encode(const data::MicroBatch& batch, const nn::StepContext& step,
                    nn::Tape& tape) const;

  Wav2Vec2Options options_;
  at::ScalarType compute_;
  // Constants of the waveform normalisation.
  at::Tensor one_;   // [1]
  at::Tensor zero_;  // [1]
  nn::ParameterStore store_;
  nn::WaveEncoder waves_;
  nn::FeatureProjection projection_;
  nn::SpecMask mask_;
  nn::PositionalConvolution positions_;
  nn::TransformerStack blocks_;
  nn::CtcHead head_;
};

}  // namespace sotto::models
