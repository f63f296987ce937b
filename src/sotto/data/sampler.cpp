#include "sotto/data/sampler.h"

#include <charconv>
#include <numeric>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/core/units.h"

namespace sotto::data {

namespace {

[[noreturn]] void refuse_batch(std::string_view text, std::string_view found) {
  throw ConfigError({.attempted = fmt::format("reading the effective batch '{}'", text),
                     .found = std::string(found),
                     .expected = "a number of utterances of at least 1, such as 32, or seconds of "
                                 "audio, such as 120s or 2min"});
}

// Whether a step of `seconds` is as near to its size as it gets, before an utterance of `next`.
bool is_full(const EffectiveBatch& batch, int64_t utterances, double seconds, double next) {
  if (utterances == 0) return false;
  if (batch.kind == EffectiveBatch::Kind::kUtterances) return utterances >= batch.utterances;
  return seconds + next / 2.0 > batch.seconds;
}

}  // namespace

EffectiveBatch EffectiveBatch::parse(std::string_view text) {
  int64_t count = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (code == std::errc{} && stop == text.data() + text.size()) {
    if (count < 1) refuse_batch(text, "it is not at least 1");
    return {.kind = Kind::kUtterances, .utterances = count};
  }
  double seconds = 0.0;
  try {
    seconds = parse_duration(text);
  } catch (const ConfigError&) {
    refuse_batch(text, "it is neither a whole number nor a duration");
  }
  if (seconds <= 0.0) refuse_batch(text, "it is zero");
  return {.kind = Kind::kSeconds, .seconds = seconds};
}

std::string EffectiveBatch::to_string() const {
  if (kind == Kind::kUtterances) return std::to_string(utterances);
  // The fewest decimals that parse back to the same number; durations have no exponent.
  for (int decimals = 0; decimals < 20; ++decimals) {
    const std::string text = fmt::format("{:.{}f}s", seconds, decimals);
    if (parse_duration(text) == seconds) return text;
  }
  return fmt::format("{:.20f}s", seconds);
}

std::span<const int64_t> EpochOrder::utterances(int64_t step) const {
  SOTTO_ASSERT(step >= 0 && step < num_steps(), "step {} of {}", step, num_steps());
  const size_t begin = starts_[static_cast<size_t>(step)];
  const size_t end = starts_[static_cast<size_t>(step) + 1];
  return std::span(order_).subspan(begin, end - begin);
}

Sampler::Sampler(const SamplerOptions& options, std::vector<double> durations_s)
    : options_(options), durations_s_(std::move(durations_s)) {
  SOTTO_ASSERT(!durations_s_.empty(), "no utterance to draw from");
}

EpochOrder Sampler::epoch(int64_t epoch) const {
  EpochOrder steps;
  if (options_.shuffle) {
    const RandomStream stream({.seed = options_.seed,
                               .purpose = Purpose::kShuffle,
                               .step = static_cast<uint64_t>(epoch)});
    steps.order_ = stream.permutation(num_utterances());
  } else {
    steps.order_.resize(durations_s_.size());
    std::iota(steps.order_.begin(), steps.order_.end(), int64_t{0});
  }
  steps.starts_ = {0};
  int64_t utterances = 0;
  double seconds = 0.0;
  for (size_t i = 0; i < steps.order_.size(); ++i) {
    const double next = durations_s_[static_cast<size_t>(steps.order_[i])];
    if (is_full(options_.batch, utterances, seconds, next)) {
      steps.starts_.push_back(i);
      utterances = 0;
      seconds = 0.0;
    }
    ++utterances;
    seconds += next;
  }
  steps.starts_.push_back(steps.order_.size());
  return steps;
}

}  // namespace sotto::data
