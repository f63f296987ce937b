// The Scorer of a network with an attention decoder. Each step decodes the hypotheses again from
// their first token. H hypotheses, V entries of the vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/models/scorer.h"
#include "sotto/nn/attention_decoder.h"

namespace sotto::models {

class AttentionScorer : public Scorer {
 public:
  // `encoded` [M, E]: the encoder's result for the pack. The decoder must outlive this object. An
  // utterance has at most as many tokens as the longest has frames.
  AttentionScorer(const nn::AttentionDecoder& decoder, at::Tensor encoded,
                  const kernels::Packing& packing, const data::DecoderTokens& tokens);

  at::Tensor begin() override;
  at::Tensor step(std::span<const int32_t> tokens) override;
  void reorder(std::span<const int64_t> sources) override;

 private:
  struct Hypothesis {
    int64_t utterance = 0;
    // Tokens including the start token.
    std::vector<int32_t> tokens;
  };

  at::Tensor score();
  // Gathers the rows of each hypothesis's utterance.
  void gather_rows();

  const nn::AttentionDecoder& decoder_;
  at::Tensor encoded_;        // [M, E]
  kernels::Packing packing_;  // pack of the utterances
  int32_t start_;
  std::vector<Hypothesis> hypotheses_;
  // Encoder rows of all hypotheses, concatenated.
  nn::SharedResult seen_;
  std::optional<kernels::Packing> seen_packing_;
};

}  // namespace sotto::models
