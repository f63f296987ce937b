// Finds the most likely token sequences of a network that decodes token by token: a beam search
// over its Scorer, for all utterances of a micro-batch at once. Width 1 is greedy decoding. With
// the scores of CTC frames it is the one-pass search of Watanabe et al. (2017): a hypothesis has
//
//   (1 - ctc_weight) log p(attention) + ctc_weight log p(CTC prefix) + language model and bonuses
//
// Rules may exclude tokens, a prompt may come before them, and they may be drawn instead of chosen.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sotto/core/rng.h"
#include "sotto/decode/token_rules.h"
#include "sotto/decode/word_scores.h"
#include "sotto/models/model.h"
#include "sotto/models/scorer.h"

namespace sotto::decode {

// What a decoder is given before the tokens that are found.
struct TokenPrompts {
  // The tokens of each utterance, from the first that the decoder sees; all of one length.
  std::vector<std::vector<int32_t>> tokens = {};
  // A token whose probability after the first `num_before` tokens of the prompt is measured, such
  // as that of no speech after the start of a transcript. None: nothing is measured.
  std::optional<int32_t> measured = std::nullopt;
  int64_t num_before = 1;
};

// Draws tokens by their probability.
struct TokenSampling {
  // Log-probabilities are divided by it; above 0.
  double temperature = 1.0;
  // Key of the random numbers, of Purpose::kSampling, and of each utterance.
  RandomKey key = {.purpose = Purpose::kSampling};
  std::vector<UtteranceKey> utterances = {};
};

struct TokenSearchOptions {
  // Number of hypotheses kept per utterance.
  int64_t width = 1;
  // Weight of CTC where the search is given frames.
  double ctc_weight = 0.0;
  // Bounds of the number of tokens without the end token, per frame of the utterance. The end token
  // that follows the maximum counts in the score.
  double max_tokens_per_frame = 1.0;
  double min_tokens_per_frame = 0.0;
  // Positions of the decoder, including those of the prompt, as max_length in transformers: a
  // hypothesis that fills them is complete without an end token. 0: no such bound.
  int64_t max_positions = 0;
  // If set, hypotheses that have ended are compared by score / (number of tokens, with the end) ^
  // length_penalty, and the search is that of transformers with early_stopping=False: it continues
  // the best `width` hypotheses that have not ended, and is finished when `width` have ended and
  // none of the others would be better at its present length. For a positive exponent a longer one
  // could be: that is not waited for.
  std::optional<double> length_penalty = std::nullopt;
  // Null: no language model.
  const WordScores* words = nullptr;
  // Null: every token may follow.
  const TokenRules* rules = nullptr;
  // Null: the network's own start.
  const TokenPrompts* prompts = nullptr;
  // Null: the likeliest tokens. Else the width is 1.
  const TokenSampling* sampling = nullptr;
  // Whether an utterance is searched; empty: all are.
  std::vector<bool> is_searched = {};
};

struct TokenHypothesis {
  // Tokens without the end token.
  std::vector<int32_t> tokens = {};
  // Score including that of the end token.
  double score = 0.0;
  // Mean log-probability of the tokens and the end among those that the rules allow, whatever the
  // temperature. Confidence, by which Whisper repeats a search.
  double mean_log_probability = 0.0;
  // Probability of the token that the prompts name.
  double measured_probability = 0.0;
};

// Returns the best hypothesis of each utterance, empty ones for those that are not searched; one
// that reaches the maximum number of tokens ends there. `frames`: scores for CTC, or null. On Meta
// a dry run: the memory of the longest and widest search; the tokens that it returns are
// placeholders.
//
// A hypothesis is continued by its `width + 8` likeliest tokens, with a length penalty by at least
// twice the width: all of them where the vocabulary is smaller. Where scores can only decrease, a
// search ends when nothing better can follow. A bonus per word makes them increase: then an
// utterance is finished when `width` hypotheses have ended and the best of them is better than all
// that are open.
std::vector<TokenHypothesis> find_tokens(models::Scorer& scorer,
                                         const TokenSearchOptions& options = {},
                                         const models::FrameScores* frames = nullptr);

// Returns the likeliest of some tokens as the first after the prompts, for each utterance: the
// language that is spoken. On Meta a dry run, which returns the first of them.
std::vector<int32_t> find_first_token(models::Scorer& scorer, const TokenPrompts& prompts,
                                      std::span<const int32_t> among);

}  // namespace sotto::decode
