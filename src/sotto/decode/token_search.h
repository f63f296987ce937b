// Finds the most likely token sequences of a network that decodes token by token: a beam search
// over its Scorer, for all utterances of a micro-batch at once. Width 1 is greedy decoding. With
// the scores of CTC frames it is the one-pass search of Watanabe et al. (2017): a hypothesis has
//
//   (1 - ctc_weight) log p(attention) + ctc_weight log p(CTC prefix) + language model and bonuses
#pragma once

#include <cstdint>
#include <vector>

#include "sotto/decode/word_scores.h"
#include "sotto/models/model.h"
#include "sotto/models/scorer.h"

namespace sotto::decode {

struct TokenSearchOptions {
  // Number of hypotheses kept per utterance.
  int64_t width = 1;
  // Weight of CTC where the search is given frames.
  double ctc_weight = 0.0;
  // Bounds of the number of tokens without the end token, per frame of the utterance.
  double max_tokens_per_frame = 1.0;
  double min_tokens_per_frame = 0.0;
  // Null: no language model.
  const WordScores* words = nullptr;
};

struct TokenHypothesis {
  // Tokens without the end token.
  std::vector<int32_t> tokens;
  // Score including that of the end token.
  double score = 0.0;
};

// Returns the best hypothesis of each utterance; one that reaches the maximum number of tokens ends
// there. `frames`: scores for CTC, or null. On Meta a dry run: the memory of the longest and widest
// search; the tokens that it returns are placeholders.
//
// A hypothesis is continued by its `width + 8` likeliest tokens: all of them where the vocabulary
// is smaller. Where scores can only decrease, a search ends when nothing better can follow. A bonus
// per word makes them increase: then an utterance is finished when `width` hypotheses have ended
// and the best of them is better than all that are open.
std::vector<TokenHypothesis> find_tokens(models::Scorer& scorer,
                                         const TokenSearchOptions& options = {},
                                         const models::FrameScores* frames = nullptr);

}  // namespace sotto::decode
