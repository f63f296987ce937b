// Scores of a word-level language model for a text that grows label by label. The model scores a
// word when it ends: at a space, at the piece that begins the next word, and at the end of the
// utterance. Shared by all searches.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sotto/data/text/tokenizer.h"
#include "sotto/decode/ngram_model.h"

namespace sotto::decode {

struct WordOptions {
  // Weight of the language model's log probabilities, and bonus per word, which offsets the
  // language model cost of each word.
  double lm_weight = 0.5;
  double word_bonus = 1.0;
};

class WordScores {
 public:
  // Without a language model all scores are 0.
  WordScores(const data::Tokenizer& tokenizer, const WordOptions& options,
             std::shared_ptr<const NgramModel> language_model);

  // What was given for the words so far, and the word that has not ended.
  struct State {
    double given = 0.0;
    NgramModel::State context = {};
    std::string word = {};
  };

  State begin() const;
  void add(State& state, int32_t label) const;
  // Scores the last word and the end of the sentence.
  void finish(State& state) const;

  bool has_model() const { return language_model_ != nullptr; }
  // Whether a longer text may have a higher score.
  bool may_increase() const { return has_model() && options_.word_bonus > 0.0; }
  int64_t num_labels() const { return static_cast<int64_t>(entries_.size()); }

 private:
  // The text that a label adds.
  struct Entry {
    bool begins_word = false;
    std::string text;
  };

  void end_word(State& state) const;

  WordOptions options_;
  std::shared_ptr<const NgramModel> language_model_;
  std::vector<Entry> entries_;
};

}  // namespace sotto::decode
