// Whisper's rules about tokens, as in transformers' SuppressTokensLogitsProcessor,
// SuppressTokensAtBeginLogitsProcessor and WhisperTimeStampLogitsProcessor: tokens that are never
// or not at the beginning written, and where timestamps are required or excluded.
#pragma once

#include <optional>
#include <vector>

#include "sotto/decode/token_rules.h"

namespace sotto::decode {

// Timestamps come in pairs, the end of a segment and the beginning of the next, except at the
// beginning and before the end of the text; they do not decrease; and one is written where all of
// them together are likelier than any other token.
struct TimestampRules {
  // <|0.00|>. All entries from it on are timestamps; the one before it is <|notimestamps|>.
  int32_t first_timestamp = 0;
  // The end of the text. Entries below it are text.
  int32_t end = 0;
  // The latest timestamp that a text may begin with, as a number of timestamps after the first;
  // none: any.
  std::optional<int32_t> max_initial_index = std::nullopt;
};

struct WhisperRuleOptions {
  // Entries that are never written.
  std::vector<int32_t> suppressed = {};
  // Entries that are not written first.
  std::vector<int32_t> suppressed_first = {};
  // None: a text without timestamps.
  std::optional<TimestampRules> timestamps = std::nullopt;
};

class WhisperRules : public TokenRules {
 public:
  explicit WhisperRules(WhisperRuleOptions options);

  void apply(std::span<const int32_t> tokens, std::span<float> scores) const override;

 private:
  WhisperRuleOptions options_;
};

}  // namespace sotto::decode
