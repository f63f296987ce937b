// Scores of continuations, token by token: the interface between an attention decoder and the
// search in decode/. It processes one micro-batch, and holds what it needs of it. H hypotheses, V
// entries of the vocabulary, M frames of the longest utterance.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sotto::models {

class Scorer {
 public:
  virtual ~Scorer() = default;

  // Number of frames of each utterance of the micro-batch, and the token that ends a hypothesis.
  const std::vector<int64_t>& num_frames() const { return num_frames_; }
  int64_t size() const { return static_cast<int64_t>(num_frames_.size()); }
  int32_t end_token() const { return end_token_; }

  // The largest search that there will be: memory is allocated for it.
  struct Limits {
    // Hypotheses per utterance at a time.
    int64_t width = 1;
    // Tokens of a hypothesis, including its end.
    int64_t max_tokens = 1;
    // Whether frame_weights() will be asked for.
    bool records_frames = false;
    // The tokens that the hypothesis of each utterance begins with, from the first that the decoder
    // sees; they are not part of max_tokens. Empty: the network's own start. All have one length,
    // because a step of a decoder is at one position: utterances with prompts of other lengths are
    // searched in micro-batches of their own. Valid during begin() only.
    std::span<const std::vector<int32_t>> prompts = {};
  };

  // Starts one hypothesis per utterance of the micro-batch, and forgets earlier ones. Returns the
  // log-probabilities of its first token after the prompt, [H, V] fp32. The caller may overwrite
  // them.
  virtual at::Tensor begin(const Limits& limits) = 0;

  // Appends a token to each hypothesis. Returns the log-probabilities of the next, [H, V] fp32. The
  // caller may overwrite them.
  virtual at::Tensor step(std::span<const int32_t> tokens) = 0;

  // Hypothesis i continues from the state of hypothesis sources[i]: their number may change, and
  // sources of one utterance stay with it.
  virtual void reorder(std::span<const int64_t> sources) = 0;

  // Returns the share of each frame in the attention behind the last log-probabilities, [H, M] fp32
  // on the device: 0 beyond the frames of its utterance. For searches that record it. Of a network
  // that names heads which follow the audio: of each of these A heads, [A, H, M].
  virtual at::Tensor frame_weights() const = 0;

 protected:
  Scorer(std::vector<int64_t> num_frames, int32_t end_token)
      : num_frames_(std::move(num_frames)), end_token_(end_token) {}

 private:
  std::vector<int64_t> num_frames_;
  int32_t end_token_;
};

}  // namespace sotto::models
