// Whisper's temperature fallback: what a search finds is checked, and where it repeats itself or is
// improbable, tokens are drawn instead, at higher and higher temperatures. Rules and thresholds are
// those of OpenAI's `transcribe` and of transformers; the text's compression is measured as by the
// former. Tokens are drawn from all that the rules allow, without transformers' top_k of 50.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/decode/token_search.h"

namespace sotto::decode {

struct FallbackOptions {
  // Temperatures in the order in which they are tried; 0: the search itself. The last one is final.
  std::vector<double> temperatures = {0.0, 0.2, 0.4, 0.6, 0.8, 1.0};
  // A text that compresses better repeats itself.
  double max_compression = 2.4;
  // A mean log-probability below it is improbable.
  double min_log_probability = -1.0;
  // An improbable text is silence where no speech is likelier than this.
  double no_speech = 0.6;
};

// What a search needs to know about its utterances.
struct FallbackInput {
  uint64_t seed = 0;
  // Key of the random numbers of each utterance.
  std::vector<UtteranceKey> utterances = {};
  // Returns the text of tokens, without timestamps.
  std::function<std::string(std::span<const int32_t>)> text_of = {};
};

// The best of an utterance at the temperature that was accepted.
struct FallbackResult {
  TokenHypothesis hypothesis = {};
  double temperature = 0.0;
  double compression = 0.0;
  // Whether it is not speech: there is nothing to write.
  bool is_silent = false;
};

// Returns how many times shorter a text becomes by zlib; 0 for an empty one.
double compression_of(std::string_view text);

// Searches all utterances, and again those that fail. `search.prompts` may measure the probability
// of no speech; without it nothing is silent.
std::vector<FallbackResult> find_with_fallback(models::Scorer& scorer, TokenSearchOptions search,
                                               const FallbackOptions& options,
                                               const FallbackInput& input);

}  // namespace sotto::decode
