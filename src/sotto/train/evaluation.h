// How well a network recognises: word and character error rates over a dataset.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sotto/core/limits.h"
#include "sotto/data/dataset.h"
#include "sotto/device/staging_buffer.h"
#include "sotto/models/model.h"
#include "sotto/train/error_rate.h"

namespace sotto::train {

struct Evaluation {
  ErrorCounts words;
  ErrorCounts characters;
  // Mean over the utterances of the loss over its number of labels, as `ctc_mean` has it.
  double loss = 0.0;
  int64_t num_utterances = 0;
  double audio_seconds = 0.0;
  double seconds = 0.0;
  std::vector<data::SkippedUtterance> skipped;

  struct Sentence {
    int64_t utterance = 0;
    std::string reference;
    std::string hypothesis;
  };
  // In the order of the manifest.
  std::vector<Sentence> sentences;
};

// Utterances that are loaded and packed together.
inline constexpr int64_t kLoadedAtOnce = 64;

struct EvaluationOptions {
  MicroBatchLimits limits = {};
  at::Device device = at::kCPU;
  int64_t loader_threads = 1;
  // Called with the number of utterances done.
  std::function<void(int64_t)> progress = {};
};

// Recognises every utterance that takes part. They travel to a GPU through `staging`.
Evaluation evaluate(models::Model& model, const data::Dataset& dataset,
                    device::StagingBuffer& staging, const EvaluationOptions& options);

// The text of what was recognised, one for each utterance of a micro-batch.
std::vector<std::string> texts_of(const models::Model::Recognised& recognised,
                                  const data::Tokenizer& tokenizer);

}  // namespace sotto::train
