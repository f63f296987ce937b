// How good a network is: word and character error rates over the utterances of a source, or the
// perplexity of a text.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sotto/core/limits.h"
#include "sotto/core/task.h"
#include "sotto/data/batch/source.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/decode/decoding.h"
#include "sotto/decode/error_rate.h"
#include "sotto/device/staging_buffer.h"
#include "sotto/models/model.h"

namespace sotto::train {

struct Evaluation {
  const Task* task = &kTranscription;
  // Of speech.
  decode::ErrorCounts words;
  decode::ErrorCounts characters;
  // Of speech the mean over the utterances of the loss over its number of labels, as `ctc_mean` has
  // it; of text the mean over the tokens.
  double loss = 0.0;
  // Of text: those that have a target. 0 for speech.
  int64_t num_tokens = 0;
  int64_t num_utterances = 0;
  double audio_seconds = 0.0;
  double seconds = 0.0;
  // Utterances that were left out, whether by their line in the manifest or when they were loaded,
  // and the first of them with their reasons.
  int64_t num_skipped = 0;
  std::vector<data::SkippedUtterance> skipped;

  struct Sentence {
    int64_t utterance = 0;
    std::string reference;
    std::string hypothesis;
    // Empty where the manifest says nothing.
    std::string speaker;
    std::string lang;
    decode::ErrorCounts words;
    decode::ErrorCounts characters;
  };
  // In the order of the manifest.
  std::vector<Sentence> sentences;

  double perplexity() const { return std::exp(loss); }
  // The task's metric.
  double metric() const { return task->is_text() ? perplexity() : words.rate(); }
};

// Of all sentences that have one text there, in the order of the texts.
struct ErrorGroup {
  std::string name;
  int64_t num_utterances = 0;
  decode::ErrorCounts words;
  decode::ErrorCounts characters;
};
std::vector<ErrorGroup> group_errors(const std::vector<Evaluation::Sentence>& sentences,
                                     std::string Evaluation::Sentence::* by);

// Those with the most errors in words, and of equally many the most in characters, first.
std::vector<Evaluation::Sentence> worst_sentences(
    const std::vector<Evaluation::Sentence>& sentences, int64_t count);

struct EvaluationOptions {
  const Task* task = &kTranscription;
  MicroBatchLimits limits = {};
  decode::DecodingOptions decoding = {};
  at::Device device = at::kCPU;
  int64_t loader_threads = 1;
  // Called with the number of utterances done.
  std::function<void(int64_t)> progress = {};
};

// Recognises every utterance that takes part, or predicts every row of text, by the task of the
// options. They travel to a GPU through `staging`.
Evaluation evaluate(models::Model& model, const data::Source& source,
                    const data::Tokenizer& tokenizer, device::StagingBuffer& staging,
                    const EvaluationOptions& options);

}  // namespace sotto::train
