#include "sotto/data/batch/sampler.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
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

// Returns whether a step of `seconds` is as close to its size as possible, before an utterance of
// `next`.
bool is_full(const EffectiveBatch& batch, int64_t utterances, double seconds, double next) {
  if (utterances == 0) return false;
  if (batch.kind == EffectiveBatch::Kind::kUtterances) return utterances >= batch.utterances;
  return seconds + next / 2.0 > batch.seconds;
}

// Positions of streams for different draws.
constexpr uint64_t kUtteranceLayer = 0, kStepLayer = 1, kSampleLayer = 2;

RandomStream shuffle_stream(uint64_t seed, int64_t epoch, uint64_t layer) {
  return RandomStream({.seed = seed,
                       .purpose = Purpose::kShuffle,
                       .step = static_cast<uint64_t>(epoch),
                       .layer = layer});
}

// Groups durations within 10 % of each other.
int32_t bucket_of(float duration_s) {
  return static_cast<int32_t>(std::floor(std::log(duration_s) / std::log(1.1f)));
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

std::span<const uint32_t> EpochOrder::utterances(int64_t step) const {
  SOTTO_ASSERT(step >= 0 && step < num_steps(), "step {} of {}", step, num_steps());
  const uint32_t begin = starts_[static_cast<size_t>(step)];
  const uint32_t end = starts_[static_cast<size_t>(step) + 1];
  return std::span(order_).subspan(begin, end - begin);
}

Sampler::Sampler(const SamplerOptions& options, std::vector<float> durations_s)
    : options_(options), durations_s_(std::move(durations_s)) {
  SOTTO_ASSERT(!durations_s_.empty(), "no utterance to draw from");
  SOTTO_ASSERT(durations_s_.size() <= std::numeric_limits<uint32_t>::max(), "{} utterances",
               durations_s_.size());
  samples_ = draw_samples();
}

std::vector<uint32_t> Sampler::draw_samples() const {
  std::vector<uint32_t> samples(durations_s_.size());
  std::iota(samples.begin(), samples.end(), 0U);
  if (options_.num_samples <= 0 || options_.num_samples >= num_utterances()) return samples;
  std::ranges::copy(
      shuffle_stream(options_.seed, /*epoch=*/0, kSampleLayer).permutation(num_utterances()),
      samples.begin());
  samples.resize(static_cast<size_t>(options_.num_samples));
  std::ranges::sort(samples);
  return samples;
}

std::vector<uint32_t> Sampler::order_of(int64_t epoch) const {
  std::vector<uint32_t> order = samples_;
  const bool is_random =
      options_.curriculum == Curriculum::kShuffle || options_.curriculum == Curriculum::kBucketed;
  if (is_random) {
    const RandomStream stream = shuffle_stream(options_.seed, epoch, kUtteranceLayer);
    std::ranges::transform(stream.permutation(std::ssize(samples_)), order.begin(),
                           [&](int64_t index) { return samples_[static_cast<size_t>(index)]; });
  }
  // Stable: the order of equal lengths stays random, or as listed.
  if (options_.curriculum == Curriculum::kSorted)
    std::ranges::stable_sort(order, {}, [&](uint32_t u) { return duration_of(u); });
  if (options_.curriculum == Curriculum::kBucketed)
    std::ranges::stable_sort(order, {}, [&](uint32_t u) { return bucket_of(duration_of(u)); });
  return order;
}

// Returns the starts of the steps, followed by the end of the last.
std::vector<uint32_t> Sampler::cut(std::span<const uint32_t> order) const {
  std::vector<uint32_t> starts = {0};
  int64_t utterances = 0;
  double seconds = 0.0;
  for (size_t i = 0; i < order.size(); ++i) {
    const double next = duration_of(order[i]);
    if (is_full(options_.batch, utterances, seconds, next)) {
      starts.push_back(static_cast<uint32_t>(i));
      utterances = 0;
      seconds = 0.0;
    }
    ++utterances;
    seconds += next;
  }
  starts.push_back(static_cast<uint32_t>(order.size()));
  return starts;
}

void Sampler::shuffle_steps(EpochOrder& steps, int64_t epoch) const {
  EpochOrder shuffled;
  shuffled.starts_ = {0};
  // A different stream from that of the utterances.
  const RandomStream stream = shuffle_stream(options_.seed, epoch, kStepLayer);
  for (const int64_t step : stream.permutation(steps.num_steps())) {
    const std::span<const uint32_t> utterances = steps.utterances(step);
    shuffled.order_.insert(shuffled.order_.end(), utterances.begin(), utterances.end());
    shuffled.starts_.push_back(static_cast<uint32_t>(shuffled.order_.size()));
  }
  steps = std::move(shuffled);
}

EpochOrder Sampler::epoch(int64_t epoch) const {
  EpochOrder steps;
  steps.order_ = order_of(epoch);
  steps.starts_ = cut(steps.order_);
  if (options_.curriculum == Curriculum::kBucketed) shuffle_steps(steps, epoch);
  return steps;
}

std::vector<uint32_t> Sampler::part(std::span<const uint32_t> step, const Rank& rank) const {
  SOTTO_ASSERT(rank.number >= 0 && rank.number < rank.count, "rank {} of {}", rank.number,
               rank.count);
  std::vector<size_t> indices(step.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  std::ranges::stable_sort(indices, std::greater<>(),
                           [&](size_t index) { return duration_of(step[index]); });
  // Distributed back and forth: the rank that gets the longest of a round gets the shortest of the
  // next.
  const auto count = static_cast<size_t>(rank.count);
  std::vector<size_t> own;
  for (size_t i = 0; i < indices.size(); ++i) {
    const size_t turn = i % count;
    const size_t owner = i / count % 2 == 0 ? turn : count - 1 - turn;
    if (owner == static_cast<size_t>(rank.number)) own.push_back(indices[i]);
  }
  std::ranges::sort(own);
  std::vector<uint32_t> utterances;
  for (const size_t index : own) utterances.push_back(step[index]);
  return utterances;
}

}  // namespace sotto::data
