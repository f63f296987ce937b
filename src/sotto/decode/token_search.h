// Finds the most likely token sequences of a network that decodes token by token: a beam search
// over its Scorer, for all utterances of a micro-batch at once. Width 1 is greedy decoding.
#pragma once

#include <cstdint>
#include <vector>

#include "sotto/models/scorer.h"

namespace sotto::decode {

struct TokenSearchOptions {
  // Number of hypotheses kept per utterance.
  int64_t width = 1;
};

struct TokenHypothesis {
  // Tokens without the end token.
  std::vector<int32_t> tokens;
  // Log probability including that of the end token.
  double score = 0.0;
};

// Returns the best hypothesis of each utterance. One that has not ended after the scorer's maximum
// number of tokens is cut there. On Meta a dry run: the maximum number of steps, and no tokens.
std::vector<TokenHypothesis> find_tokens(models::Scorer& scorer,
                                         const TokenSearchOptions& options = {});

}  // namespace sotto::decode
