// Scores of continuations, token by token: the interface between an attention decoder and the
// search in decode/. It processes one micro-batch, and holds what it needs of it. H hypotheses, V
// entries of the vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace sotto::models {

class Scorer {
 public:
  virtual ~Scorer() = default;

  // Number of utterances in the micro-batch, the token that ends a hypothesis, and the maximum
  // number of tokens of one, including its end.
  int64_t size() const { return limits_.num_utterances; }
  int32_t end_token() const { return limits_.end_token; }
  int64_t max_tokens() const { return limits_.max_tokens; }

  // Starts one hypothesis per utterance of the micro-batch. Returns the log-probabilities of its
  // first token, [H, V] fp32.
  virtual at::Tensor begin() = 0;

  // Appends a token to each hypothesis. Returns the log-probabilities of the next, [H, V] fp32.
  virtual at::Tensor step(std::span<const int32_t> tokens) = 0;

  // Hypothesis i continues from the state of hypothesis sources[i]: their number may change, and
  // sources of one utterance stay with it.
  virtual void reorder(std::span<const int64_t> sources) = 0;

 protected:
  struct Limits {
    int64_t num_utterances = 0;
    int32_t end_token = 0;
    int64_t max_tokens = 1;
  };
  explicit Scorer(const Limits& limits) : limits_(limits) {}

 private:
  Limits limits_;
};

}  // namespace sotto::models
