// The Scorer of a network with an attention decoder. Keys and values of earlier tokens are in a
// cache, in which a token keeps its row: a hypothesis is a list of rows, so that reordering copies
// nothing on the device, and the frames of an utterance are shared by its hypotheses. H hypotheses,
// V entries of the vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/kernels/attention/row_attention.h"
#include "sotto/kernels/base/packing.h"
#include "sotto/models/scorer.h"
#include "sotto/nn/heads/attention_decoder.h"

namespace sotto::models {

class AttentionScorer : public Scorer {
 public:
  // The audio of a micro-batch, as the decoder sees it.
  struct Audio {
    at::Tensor encoded;               // [M, E], the encoder's result
    const kernels::Packing& packing;  // of its rows
    // Rows of each utterance that are not silence added to it; empty: all.
    std::vector<int64_t> num_frames = {};
  };

  // The tokens around the text of a hypothesis.
  struct Tokens {
    // Those that the hypotheses of each utterance begin with, equally many: prompts_of() makes
    // them.
    std::vector<std::vector<int32_t>> prompts;
    int32_t end = 0;
    // Most tokens that the decoder has positions for, with the prompt.
    int64_t most = kUnlimited;
  };

  // The decoder must outlive this object.
  AttentionScorer(const nn::AttentionDecoder& decoder, Audio audio, Tokens tokens);

  at::Tensor begin(const Limits& limits) override;
  at::Tensor step(std::span<const int32_t> tokens) override;
  void reorder(std::span<const int64_t> sources) override;
  at::Tensor frame_weights() const override;

 private:
  struct Hypothesis {
    int64_t utterance = 0;
    // Rows of its tokens in the cache.
    std::vector<int32_t> rows = {};
  };

  // Memory of a search.
  struct Memory {
    std::vector<nn::BlockCache> caches;
    kernels::SeenRows own;
    kernels::SeenRows seen;
    at::Tensor weights;  // [most hypotheses, frames of the longest utterance]; may be undefined
  };

  const nn::AttentionDecoder& decoder_;
  at::Tensor encoded_;  // [M, E]
  // First row of each utterance in it, and their numbers.
  std::vector<int64_t> starts_;
  std::vector<int64_t> lengths_;
  int64_t max_frames_;
  int64_t max_positions_;
  // By utterance.
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<Hypothesis> hypotheses_;
  std::optional<Memory> memory_;
  int64_t position_ = 0;
  int64_t next_row_ = 0;
};

// Returns the start token and the first labels of each utterance that are its prompt. A dry
// micro-batch may have fewer labels.
std::vector<std::vector<int32_t>> prompts_of(const kernels::Labels& labels,
                                             const data::DecoderTokens& tokens);

}  // namespace sotto::models
