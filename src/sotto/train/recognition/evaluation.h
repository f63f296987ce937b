// Evaluates a network: word and character error rates over the utterances of a source, or the
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
  // Error counts; speech only.
  decode::ErrorCounts words;
  decode::ErrorCounts characters;
  // For speech the mean over utterances of the loss divided by the number of labels, as in
  // `ctc_mean`; for text the mean over tokens.
  double loss = 0.0;
  // Number of tokens with a target; 0 for speech.
  int64_t num_tokens = 0;
  int64_t num_utterances = 0;
  double audio_seconds = 0.0;
  double seconds = 0.0;
  // Number of utterances skipped, because of their manifest line or on loading, and the first of
  // them with their reasons.
  int64_t num_skipped = 0;
  std::vector<data::SkippedUtterance> skipped;

  struct Sentence {
    int64_t utterance = 0;
    // As they were compared: after the normaliser, if there is one.
    std::string reference;
    std::string hypothesis;
    // Empty where the manifest has no value.
    std::string speaker;
    std::string lang;
    decode::ErrorCounts words;
    decode::ErrorCounts characters;
  };
  // Sentences in manifest order.
  std::vector<Sentence> sentences;

  double perplexity() const { return std::exp(loss); }
  // The metric of the task.
  double metric() const { return task->is_text() ? perplexity() : words.rate(); }
};

// Errors of all sentences with the same value of a field, sorted by that value.
struct ErrorGroup {
  std::string name;
  int64_t num_utterances = 0;
  decode::ErrorCounts words;
  decode::ErrorCounts characters;
};
std::vector<ErrorGroup> group_errors(const std::vector<Evaluation::Sentence>& sentences,
                                     std::string Evaluation::Sentence::* by);

// Returns the sentences with the most word errors first; ties are ordered by character errors.
std::vector<Evaluation::Sentence> worst_sentences(
    const std::vector<Evaluation::Sentence>& sentences, int64_t count);

struct EvaluationOptions {
  const Task* task = &kTranscription;
  MicroBatchLimits limits = {};
  decode::DecodingOptions decoding = {};
  // Applied to references and hypotheses; null: none.
  const decode::TextNormalizer* normalizer = nullptr;
  at::Device device = at::kCPU;
  int64_t loader_threads = 1;
  // Called with the number of utterances completed.
  std::function<void(int64_t)> progress = {};
};

// Recognises every selected utterance, or predicts every row of text, as the task of the options
// requires. Data is copied to a GPU through `staging`.
Evaluation evaluate(models::Model& model, const data::Source& source,
                    const data::Tokenizer& tokenizer, device::StagingBuffer& staging,
                    const EvaluationOptions& options);

}  // namespace sotto::train
