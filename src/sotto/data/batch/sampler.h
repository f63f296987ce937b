// Assigns utterances to steps. The assignment depends only on the seed, the epoch, the effective
// batch, the curriculum and the durations: not on the budget, the number of micro-batches, of
// devices or of the loader's threads. Therefore only a position has to be saved, and any step can
// be reached directly.
//
//   const Sampler sampler({.seed = 1, .batch = EffectiveBatch::parse("120s")}, durations);
//   const EpochOrder order = sampler.epoch(0);
//   for (int64_t step = 0; step < order.num_steps(); ++step) use(order.utterances(step));
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/config/options.h"

namespace sotto::data {

// Amount of data per update of the weights.
struct EffectiveBatch {
  enum class Kind { kUtterances, kSeconds };

  Kind kind = Kind::kUtterances;
  int64_t utterances = 32;  // for kUtterances
  double seconds = 0.0;     // for kSeconds

  // Parses "32" as utterances; "120s", "2min" as seconds of audio. Throws ConfigError for anything
  // else.
  static EffectiveBatch parse(std::string_view text);

  // Returns a text that parse() reads back to the same value.
  std::string to_string() const;

  friend bool operator==(const EffectiveBatch&, const EffectiveBatch&) = default;
};

enum class Curriculum {
  // A new random order in each epoch.
  kShuffle,
  // The shortest first, in every epoch.
  kSorted,
  // Utterances of about the same length (within 10 %) in a step, the steps in a new random order in
  // each epoch.
  kBucketed,
  // In the order of the list: for evaluation.
  kListed
};

// The curricula that training offers.
inline constexpr std::array kCurricula = {Named<Curriculum>{"shuffle", Curriculum::kShuffle},
                                          Named<Curriculum>{"sorted", Curriculum::kSorted},
                                          Named<Curriculum>{"bucketed", Curriculum::kBucketed}};

struct SamplerOptions {
  uint64_t seed = 0;
  EffectiveBatch batch = {};
  Curriculum curriculum = Curriculum::kShuffle;
  // Only this many utterances take part: the first of an order that depends on the seed alone, so
  // that a larger number includes those of a smaller one. 0: all.
  int64_t num_samples = 0;
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
  // Returns indices into the sampler's durations, valid while this object lives.
  std::span<const uint32_t> utterances(int64_t step) const;

 private:
  friend class Sampler;

  // 4 bytes per utterance: there may be millions.
  std::vector<uint32_t> order_;
  // Start of each step in the order, followed by the end of the last.
  std::vector<uint32_t> starts_;
};

// One of several devices that share each step.
struct Rank {
  int64_t number = 0;
  int64_t count = 1;
};

class Sampler {
 public:
  // `durations_s`: seconds of each utterance, at least one.
  Sampler(const SamplerOptions& options, std::vector<float> durations_s);

  const SamplerOptions& options() const { return options_; }
  int64_t num_utterances() const { return static_cast<int64_t>(durations_s_.size()); }

  // Returns every utterance that takes part once. With an effective batch of utterances each step
  // has that many; with one of seconds it ends where its sum is closest to them, and has at least
  // one utterance. The last step has the remainder.
  EpochOrder epoch(int64_t epoch) const;

  // Returns a rank's utterances of a step, in the step's order. The parts of all ranks make up the
  // step, and are about equally long: the longest utterances are distributed first.
  std::vector<uint32_t> part(std::span<const uint32_t> step, const Rank& rank) const;

 private:
  std::vector<uint32_t> draw_samples() const;
  std::vector<uint32_t> order_of(int64_t epoch) const;
  std::vector<uint32_t> cut(std::span<const uint32_t> order) const;
  void shuffle_steps(EpochOrder& steps, int64_t epoch) const;
  float duration_of(uint32_t utterance) const { return durations_s_[utterance]; }

  SamplerOptions options_;
  std::vector<float> durations_s_;
  // The utterances that take part, in the order of the list.
  std::vector<uint32_t> samples_;
};

}  // namespace sotto::data
