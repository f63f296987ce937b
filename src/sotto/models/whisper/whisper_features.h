// The input of Whisper's encoder: log-mel features of the waveform, of a whole window with silence
// after the utterance or of the utterance alone, masked in training. B utterances, N frames, F
// features.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/kernels/features/log_mel.h"
#include "sotto/models/model.h"
#include "sotto/models/whisper/whisper_options.h"
#include "sotto/nn/context.h"

namespace sotto::models {

class WhisperFeatures {
 public:
  // `compute`: the type of the result. Throws ConfigError for stored features.
  WhisperFeatures(const WhisperOptions& options, const DataShape& shape, const at::Device& device,
                  at::ScalarType compute);

  // Returns the number of frames of an utterance, with the silence added to it.
  int64_t num_frames(int64_t samples) const;
  kernels::Packing frames_of(const data::MicroBatch& batch) const;

  // Returns the features [N, F] of a micro-batch, whose frames are the context's pack.
  at::Tensor forward(const data::MicroBatch& batch, const nn::Context& context) const;

  // Returns the least samples that an utterance may have.
  static int64_t min_samples(const WhisperOptions& options);

 private:
  bool adds_silence() const { return options_.window == WhisperWindow::kWhole; }
  // Returns samples [B W] of the utterances in windows of W samples each.
  at::Tensor with_silence(const data::MicroBatch& batch) const;
  at::Tensor log_mel(const data::MicroBatch& batch) const;

  WhisperOptions options_;
  at::ScalarType compute_;
  kernels::LogMel::Tables tables_;
};

}  // namespace sotto::models
