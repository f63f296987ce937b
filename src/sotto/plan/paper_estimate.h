// The estimator that papers and guides use, shown next to the exact figure: bytes by a formula. No
// decision depends on it.
#pragma once

#include <cstdint>

#include "sotto/data/batch/source.h"
#include "sotto/models/model.h"
#include "sotto/train/step/run_config.h"

namespace sotto::plan {

struct PaperOptions {
  // Named "alpha_constant" and "sequence_length_percentile" in guides.
  double alpha = 1.2;
  double percentile = 95.0;
};

struct PaperEstimate {
  // Frames of an utterance at the percentile, and utterances per micro-batch.
  int64_t frames = 0;
  int64_t utterances = 0;
  // Weights, gradients and both moments at the nominal sizes of the arithmetic.
  int64_t state_bytes = 0;
  // alpha x T x d x layers per utterance, in the type of activations.
  int64_t activation_bytes = 0;

  int64_t total() const { return state_bytes + activation_bytes; }
  // Relative error against the exact figure: 0.5 where the formula gives 1.5 times as much.
  double miss(int64_t exact_bytes) const {
    return static_cast<double>(total()) / static_cast<double>(exact_bytes) - 1.0;
  }
};

// Estimates micro-batches of `utterances` utterances of the source.
PaperEstimate estimate_as_papers(const train::RunConfig& config, const models::DataShape& shape,
                                 const data::Source& source, int64_t utterances,
                                 const PaperOptions& options);

}  // namespace sotto::plan
