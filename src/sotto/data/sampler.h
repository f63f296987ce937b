// Which utterances make up each step. They follow from the seed, the epoch, the effective batch and
// the durations alone: not from the budget, the number of micro-batches or the loader's threads. So
// nothing needs saving but a position.
//
//   const Sampler sampler({.seed = 1, .batch = EffectiveBatch::parse("120s")}, durations);
//   const EpochOrder order = sampler.epoch(0);
//   for (int64_t step = 0; step < order.num_steps(); ++step) use(order.utterances(step));
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::data {

// How much goes into one update of the weights.
struct EffectiveBatch {
  enum class Kind { kUtterances, kSeconds };

  Kind kind = Kind::kUtterances;
  int64_t utterances = 32;  // of kUtterances
  double seconds = 0.0;     // of kSeconds

  // "32": utterances; "120s", "2min": seconds of audio. Throws ConfigError for anything else.
  static EffectiveBatch parse(std::string_view text);

  // What parse() reads back to the same value.
  std::string to_string() const;

  friend bool operator==(const EffectiveBatch&, const EffectiveBatch&) = default;
};

struct SamplerOptions {
  uint64_t seed = 0;
  EffectiveBatch batch = {};
  // A new random order in each epoch; false: always the order of the durations.
  bool shuffle = true;
};

// A step of an epoch; both count from 0.
struct StepPosition {
  int64_t epoch = 0;
  int64_t step = 0;

  friend bool operator==(const StepPosition&, const StepPosition&) = default;
};

// The steps of one epoch.
class EpochOrder {
 public:
  int64_t num_steps() const { return static_cast<int64_t>(starts_.size()) - 1; }
  // Places in the sampler's durations. They last as long as this object.
  std::span<const int64_t> utterances(int64_t step) const;

 private:
  friend class Sampler;

  std::vector<int64_t> order_;
  std::vector<size_t> starts_;
};

class Sampler {
 public:
  // `durations_s`: seconds of each utterance that takes part, at least one.
  Sampler(const SamplerOptions& options, std::vector<double> durations_s);

  const SamplerOptions& options() const { return options_; }
  int64_t num_utterances() const { return static_cast<int64_t>(durations_s_.size()); }

  // Every utterance once. With an effective batch of utterances each step has that many, with one
  // of seconds it ends where its sum is nearest to them, and has at least one utterance. The last
  // step has what is left.
  EpochOrder epoch(int64_t epoch) const;

 private:
  SamplerOptions options_;
  std::vector<double> durations_s_;
};

}  // namespace sotto::data
