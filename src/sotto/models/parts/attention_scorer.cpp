#include "sotto/models/parts/attention_scorer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/kernels/base/labels.h"

namespace sotto::models {

namespace {

std::vector<int64_t> frames_of(const AttentionScorer::Audio& audio) {
  return audio.num_frames.empty() ? audio.packing.lengths() : audio.num_frames;
}

// Returns the length that all prompts have.
int64_t checked_length(std::span<const std::vector<int32_t>> prompts, int64_t num_utterances) {
  SOTTO_ASSERT(std::ssize(prompts) == num_utterances, "{} prompts of {} utterances", prompts.size(),
               num_utterances);
  for (const std::vector<int32_t>& prompt : prompts)
    SOTTO_ASSERT(!prompt.empty() && prompt.size() == prompts.front().size(),
                 "prompts of {} and {} tokens", prompts.front().size(), prompt.size());
  return std::ssize(prompts.front());
}

// Returns the most tokens of a text.
int64_t most_of_text(const AttentionScorer::Tokens& tokens) {
  if (tokens.most == Scorer::kUnlimited) return tokens.most;
  return std::max<int64_t>(0, tokens.most - std::ssize(tokens.prompts.front()));
}

}  // namespace

AttentionScorer::AttentionScorer(const nn::AttentionDecoder& decoder, Audio audio, Tokens tokens)
    : Scorer(frames_of(audio), tokens.end, most_of_text(tokens)),
      decoder_(decoder),
      encoded_(std::move(audio.encoded)),
      starts_(audio.packing.starts()),
      lengths_(audio.packing.lengths()),
      max_frames_(audio.packing.max_length()),
      max_positions_(tokens.most),
      prompts_(std::move(tokens.prompts)) {
  checked_length(prompts_, size());
}

at::Tensor AttentionScorer::begin(const Limits& limits) {
  memory_.reset();
  const std::span<const std::vector<int32_t>> prompts =
      limits.prompts.empty() ? std::span<const std::vector<int32_t>>(prompts_) : limits.prompts;
  const int64_t num_given = checked_length(prompts, size());
  SOTTO_ASSERT(num_given + limits.max_tokens - 1 <= max_positions_,
               "a prompt of {} tokens and {} after it, for {} positions", num_given,
               limits.max_tokens, max_positions_);
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
  for (size_t at = 0; at < static_cast<size_t>(num_given); ++at) {
    std::vector<int32_t> tokens;
    for (const std::vector<int32_t>& prompt : prompts) tokens.push_back(prompt[at]);
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
    frames.push_back({.first = starts_[utterance], .count = lengths_[utterance]});
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

std::vector<std::vector<int32_t>> prompts_of(const kernels::Labels& labels,
                                             const data::DecoderTokens& tokens) {
  std::vector<std::vector<int32_t>> prompts;
  const bool is_dry = labels.device_values().is_meta();
  for (int64_t utterance = 0; utterance < labels.num_utterances(); ++utterance) {
    const std::span<const int32_t> own = labels.of(utterance);
    SOTTO_ASSERT(is_dry || std::ssize(own) >= tokens.num_prompt,
                 "{} labels where the prompt has {}", own.size(), tokens.num_prompt);
    std::vector<int32_t>& prompt = prompts.emplace_back(1, tokens.start);
    for (int64_t at = 0; at < tokens.num_prompt; ++at)
      prompt.push_back(is_dry ? tokens.start : own[static_cast<size_t>(at)]);
  }
  return prompts;
}

}  // namespace sotto::models
