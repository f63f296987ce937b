#include "sotto/models/parts/attention_scorer.h"

#include <ATen/ATen.h>

#include <utility>

#include "sotto/core/error.h"
#include "sotto/kernels/base/labels.h"

namespace sotto::models {

namespace {

// Returns the length that all prompts have.
int64_t checked_length(const std::vector<std::vector<int32_t>>& prompts, int64_t num_utterances) {
  SOTTO_ASSERT(std::ssize(prompts) == num_utterances, "prompts of {} utterances", prompts.size());
  for (const std::vector<int32_t>& prompt : prompts)
    SOTTO_ASSERT(!prompt.empty() && prompt.size() == prompts.front().size(),
                 "a prompt of {} tokens, and one of {}", prompts.front().size(), prompt.size());
  return std::ssize(prompts.front());
}

}  // namespace

AttentionScorer::AttentionScorer(const nn::AttentionDecoder& decoder, at::Tensor encoded,
                                 const kernels::Packing& packing, const data::DecoderTokens& tokens)
    : Scorer(packing.lengths(), tokens.end),
      decoder_(decoder),
      encoded_(std::move(encoded)),
      starts_(packing.starts()),
      max_frames_(packing.max_length()),
      start_(tokens.start) {
  // Searches continue with any other token.
  SOTTO_ASSERT(tokens.start == tokens.end, "token {} starts and {} ends", tokens.start, tokens.end);
}

at::Tensor AttentionScorer::begin(const Limits& limits) {
  memory_.reset();
  std::vector<std::vector<int32_t>> prompts(limits.prompts.begin(), limits.prompts.end());
  if (prompts.empty()) prompts.assign(static_cast<size_t>(size()), {start_});
  const int64_t num_given = checked_length(prompts, size());
  const int64_t num_hypotheses = size() * limits.width;
  // An utterance's hypotheses share the rows of all but the last token of its prompt.
  const int64_t num_rows = size() * (num_given - 1) + num_hypotheses * limits.max_tokens;
  const int64_t num_listed = num_hypotheses * (num_given - 1 + limits.max_tokens);
  const at::Device device = encoded_.device();
  memory_.emplace(Memory{.caches = decoder_.make_caches(num_rows, encoded_),
                         .own = {num_hypotheses, num_listed, device},
                         .seen = {num_hypotheses, 0, device},
                         .weights = {}});
  if (limits.records_frames)
    memory_->weights =
        at::empty({num_hypotheses, max_frames_}, encoded_.options().dtype(at::kFloat));
  hypotheses_.clear();
  for (int64_t utterance = 0; utterance < size(); ++utterance)
    hypotheses_.push_back({.utterance = utterance});
  position_ = next_row_ = 0;
  at::Tensor scores;  // [H, V]
  for (size_t i = 0; i < static_cast<size_t>(num_given); ++i) {
    std::vector<int32_t> tokens;
    for (const std::vector<int32_t>& prompt : prompts) tokens.push_back(prompt[i]);
    scores.reset();
    scores = step(tokens);
  }
  return scores;
}

at::Tensor AttentionScorer::step(std::span<const int32_t> tokens) {
  SOTTO_ASSERT(tokens.size() == hypotheses_.size(), "{} tokens for {} hypotheses", tokens.size(),
               hypotheses_.size());
  const int64_t first_row = next_row_;
  std::vector<kernels::SeenRows::Range> frames;
  std::vector<std::vector<int32_t>> rows;
  for (Hypothesis& hypothesis : hypotheses_) {
    hypothesis.rows.push_back(static_cast<int32_t>(next_row_++));
    rows.push_back(hypothesis.rows);
    const auto utterance = static_cast<size_t>(hypothesis.utterance);
    frames.push_back({.first = starts_[utterance], .count = num_frames()[utterance]});
  }
  memory_->own.set_lists(rows);
  memory_->seen.set_ranges(frames);
  nn::DecodingStep step{.first_row = first_row, .own = memory_->own, .seen = memory_->seen};
  at::Tensor weights;
  if (memory_->weights.defined()) {
    weights = memory_->weights.narrow(0, 0, std::ssize(hypotheses_));
    if (!weights.is_meta()) weights.zero_();
    step.weights = &weights;
  }
  const kernels::Labels inputs({std::vector<int32_t>(tokens.begin(), tokens.end())},
                               encoded_.device());
  const at::Tensor logits =
      decoder_.step(inputs.device_values(), position_++, memory_->caches, step);
  return at::log_softmax(logits, 1, at::kFloat);
}

void AttentionScorer::reorder(std::span<const int64_t> sources) {
  std::vector<Hypothesis> next;
  for (const int64_t source : sources) next.push_back(hypotheses_.at(static_cast<size_t>(source)));
  hypotheses_ = std::move(next);
}

at::Tensor AttentionScorer::frame_weights() const {
  SOTTO_ASSERT(memory_ && memory_->weights.defined(), "weights of frames were not recorded");
  return memory_->weights.narrow(0, 0, std::ssize(hypotheses_));
}

}  // namespace sotto::models
