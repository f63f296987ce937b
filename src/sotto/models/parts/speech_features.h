// The input of networks on log-mel features: computed from the waveform or stored, normalised, and
// masked in training. N frames, F features.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/kernels/features/log_mel.h"
#include "sotto/models/model.h"
#include "sotto/nn/context.h"
#include "sotto/nn/fronts/spec_augment.h"
#include "sotto/nn/parameters.h"

namespace sotto::models {

struct SpeechFeatureOptions {
  // Features of the waveform; refused where the data has stored features and these are not the
  // defaults.
  kernels::LogMelOptions log_mel;
  // Masks on normalised features, including stored ones.
  nn::SpecAugmentOptions masks;
  // What `log_mel` is where nobody set it.
  kernels::LogMelOptions usual_log_mel = {};
};

class SpeechFeatures {
 public:
  // `compute`: the type of the result.
  SpeechFeatures(const SpeechFeatureOptions& options, const DataShape& shape,
                 const at::Device& device, at::ScalarType compute);

  int64_t width() const { return width_; }
  // Returns the number of frames of samples, or of stored frames.
  int64_t num_frames(int64_t rows) const;
  kernels::Packing frames_of(const data::MicroBatch& batch) const;

  // Returns the features [N, F] of a micro-batch, whose frames are the context's pack.
  at::Tensor forward(const data::MicroBatch& batch, const nn::Context& context) const;

  // Returns the least samples or stored frames that give one frame.
  static int64_t min_rows(const kernels::LogMelOptions& log_mel, int64_t feature_dim);

 private:
  // Constants of the normalisation, which is per utterance and feature.
  struct Normalisation {
    at::Tensor gamma;  // [F], ones
    at::Tensor beta;   // [F], zeros
  };

  at::Tensor normalised(const data::MicroBatch& batch, const kernels::Packing& frames) const;

  SpeechFeatureOptions options_;
  int64_t width_;
  at::ScalarType compute_;
  std::optional<kernels::LogMel::Tables> log_mel_;  // absent with stored features
  Normalisation normalisation_;
};

}  // namespace sotto::models
