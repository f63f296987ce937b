// The likeliest token sequences of a network that is asked token by token: a beam search over its
// Scorer, all utterances of a micro-batch at once. Width 1 is greedy.
#pragma once

#include <cstdint>
#include <vector>

#include "sotto/models/scorer.h"

namespace sotto::decode {

struct TokenSearchOptions {
  // Hypotheses kept for each utterance.
  int64_t width = 1;
};

struct TokenHypothesis {
  // Without the end.
  std::vector<int32_t> tokens;
  // The logarithm of its probability, that of its end included.
  double score = 0.0;
};

// The best hypothesis of each utterance. One that has not ended after as many tokens as the scorer
// allows ends there. On Meta a dry run: as many steps as there can be, and no tokens.
std::vector<TokenHypothesis> find_tokens(models::Scorer& scorer,
                                         const TokenSearchOptions& options = {});

}  // namespace sotto::decode
