#include "sotto/decode/whisper_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sotto/core/error.h"

namespace sotto::decode {

namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

// Excludes the entries from `begin` to `end`, as far as there are such.
void exclude(std::span<float> scores, int64_t begin, int64_t end) {
  const int64_t size = std::ssize(scores);
  for (int64_t token = std::max<int64_t>(0, begin); token < std::min(end, size); ++token)
    scores[static_cast<size_t>(token)] = kExcluded;
}

void exclude(std::span<float> scores, std::span<const int32_t> entries) {
  for (const int32_t entry : entries) exclude(scores, entry, int64_t{entry} + 1);
}

// Excludes what would leave a timestamp without its pair, or let timestamps decrease.
void keep_pairs(const TimestampRules& rules, std::span<const int32_t> tokens,
                std::span<float> scores) {
  const auto is_timestamp = [&](int32_t token) { return token >= rules.first_timestamp; };
  const bool is_last = !tokens.empty() && is_timestamp(tokens.back());
  // The beginning counts as one: a text begins with a single timestamp.
  const bool is_last_but_one = tokens.size() < 2 || is_timestamp(tokens[tokens.size() - 2]);
  if (is_last && is_last_but_one) exclude(scores, rules.first_timestamp, std::ssize(scores));
  if (is_last && !is_last_but_one) exclude(scores, 0, rules.end);
  const auto latest = std::find_if(tokens.rbegin(), tokens.rend(), is_timestamp);
  if (latest == tokens.rend()) return;
  // A segment may begin where the one before it ended, but takes some time itself.
  const bool may_repeat = is_last && !is_last_but_one;
  exclude(scores, rules.first_timestamp, int64_t{*latest} + (may_repeat ? 0 : 1));
}

// Excludes all other entries where the timestamps together are likelier than each of them.
void prefer_timestamps(const TimestampRules& rules, std::span<float> scores) {
  const auto first = static_cast<size_t>(rules.first_timestamp);
  if (first >= scores.size()) return;
  const auto timestamps = scores.subspan(first);
  const float likeliest = *std::ranges::max_element(timestamps);
  if (likeliest == kExcluded) return;
  double sum = 0.0;
  for (const float score : timestamps) sum += std::exp(double{score} - double{likeliest});
  const float other = first == 0 ? kExcluded : *std::ranges::max_element(scores.first(first));
  if (double{likeliest} + std::log(sum) > double{other}) exclude(scores, 0, rules.first_timestamp);
}

}  // namespace

WhisperRules::WhisperRules(WhisperRuleOptions options) : options_(std::move(options)) {
  if (!options_.timestamps) return;
  const TimestampRules& rules = *options_.timestamps;
  SOTTO_ASSERT(0 <= rules.end && rules.end < rules.first_timestamp,
               "the end {} and the first timestamp {}", rules.end, rules.first_timestamp);
}

void WhisperRules::apply(std::span<const int32_t> tokens, std::span<float> scores) const {
  exclude(scores, options_.suppressed);
  if (tokens.empty()) exclude(scores, options_.suppressed_first);
  if (!options_.timestamps) return;
  const TimestampRules& rules = *options_.timestamps;
  exclude(scores, int64_t{rules.first_timestamp} - 1, rules.first_timestamp);
  keep_pairs(rules, tokens, scores);
  if (tokens.empty()) {
    exclude(scores, 0, rules.first_timestamp);
    if (rules.max_initial_index)
      exclude(scores, int64_t{rules.first_timestamp} + *rules.max_initial_index + 1,
              std::ssize(scores));
  }
  prefer_timestamps(rules, scores);
}

}  // namespace sotto::decode
