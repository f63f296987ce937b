#include "sotto/models/attention_scorer.h"

#include <ATen/ATen.h>

#include <utility>

#include "sotto/core/error.h"
#include "sotto/kernels/base/labels.h"
#include "sotto/kernels/elementwise/embedding.h"

namespace sotto::models {

namespace {

// Returns x[rows], for rows [N].
at::Tensor rows_of(const at::Tensor& x, const std::vector<int32_t>& rows) {
  const kernels::Labels indices({rows}, x.device());
  return kernels::Embedding::forward(indices.device_values(), x);
}

}  // namespace

AttentionScorer::AttentionScorer(const nn::AttentionDecoder& decoder, at::Tensor encoded,
                                 const kernels::Packing& packing, const data::DecoderTokens& tokens)
    : Scorer({.num_utterances = packing.num_utterances(),
              .end_token = tokens.end,
              .max_tokens = packing.max_length() + 1}),
      decoder_(decoder),
      encoded_(std::move(encoded)),
      packing_(packing),
      start_(tokens.start) {}

at::Tensor AttentionScorer::begin() {
  hypotheses_.clear();
  for (int64_t utterance = 0; utterance < size(); ++utterance)
    hypotheses_.push_back({.utterance = utterance, .tokens = {start_}});
  seen_.put(encoded_);
  seen_packing_ = packing_;
  return score();
}

at::Tensor AttentionScorer::step(std::span<const int32_t> tokens) {
  SOTTO_ASSERT(tokens.size() == hypotheses_.size(), "{} tokens for {} hypotheses", tokens.size(),
               hypotheses_.size());
  for (size_t i = 0; i < tokens.size(); ++i) hypotheses_[i].tokens.push_back(tokens[i]);
  return score();
}

void AttentionScorer::reorder(std::span<const int64_t> sources) {
  std::vector<Hypothesis> next;
  bool is_same_utterances = sources.size() == hypotheses_.size();
  for (size_t i = 0; i < sources.size(); ++i) {
    next.push_back(hypotheses_.at(static_cast<size_t>(sources[i])));
    is_same_utterances = is_same_utterances && next[i].utterance == hypotheses_[i].utterance;
  }
  hypotheses_ = std::move(next);
  if (!is_same_utterances) gather_rows();
}

void AttentionScorer::gather_rows() {
  std::vector<int32_t> rows;
  std::vector<int64_t> lengths;
  for (const Hypothesis& hypothesis : hypotheses_) {
    const auto utterance = static_cast<size_t>(hypothesis.utterance);
    for (int64_t row = packing_.starts()[utterance]; row < packing_.starts()[utterance + 1]; ++row)
      rows.push_back(static_cast<int32_t>(row));
    lengths.push_back(packing_.lengths()[utterance]);
  }
  seen_.put({});
  seen_.put(rows_of(encoded_, rows));
  seen_packing_.emplace(std::move(lengths), encoded_.device());
}

at::Tensor AttentionScorer::score() {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<int64_t> lengths;
  std::vector<int32_t> last_rows;
  int32_t end = 0;
  for (const Hypothesis& hypothesis : hypotheses_) {
    tokens.push_back(hypothesis.tokens);
    lengths.push_back(std::ssize(hypothesis.tokens));
    end += static_cast<int32_t>(hypothesis.tokens.size());
    last_rows.push_back(end - 1);
  }
  const at::Device device = encoded_.device();
  const kernels::Labels inputs(tokens, device);
  const kernels::Packing packing(std::move(lengths), device);
  const at::Tensor x = decoder_.decode(inputs.device_values(), packing,
                                       {.packing = *seen_packing_, .result = seen_});
  return at::log_softmax(decoder_.logits(rows_of(x, last_rows)), 1, at::kFloat);
}

}  // namespace sotto::models
