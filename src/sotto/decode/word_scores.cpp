#include "sotto/decode/word_scores.h"

#include <utility>

namespace sotto::decode {

WordScores::WordScores(const data::Tokenizer& tokenizer, const WordOptions& options,
                       std::shared_ptr<const NgramModel> language_model)
    : options_(options), language_model_(std::move(language_model)) {
  for (int32_t label = 0; label < tokenizer.size(); ++label) {
    std::string text = tokenizer.piece(label);
    const bool begins_word = text.starts_with(' ');
    if (begins_word) text.erase(0, 1);
    entries_.push_back({.begins_word = begins_word, .text = std::move(text)});
  }
}

WordScores::State WordScores::begin() const {
  State state;
  if (has_model()) state.context = language_model_->begin();
  return state;
}

void WordScores::add(State& state, int32_t label) const {
  if (!has_model()) return;
  const Entry& entry = entries_.at(static_cast<size_t>(label));
  if (entry.begins_word) end_word(state);
  state.word += entry.text;
}

void WordScores::finish(State& state) const {
  if (!has_model()) return;
  end_word(state);
  state.given += options_.lm_weight * language_model_->finish(state.context);
}

void WordScores::end_word(State& state) const {
  if (state.word.empty()) return;
  const double log_probability = language_model_->score(state.context, state.word);
  state.given += options_.lm_weight * log_probability + options_.word_bonus;
  state.word.clear();
}

}  // namespace sotto::decode
