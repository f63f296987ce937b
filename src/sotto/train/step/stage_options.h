// Progressive training: a run in stages, each on more of the data than the one before. The samples
// of a stage are the first of a seeded order, so that a stage contains those of all earlier stages.
//
//   stages:
//     - {samples: 100k, epochs: 10, schedule: {rate: 1e-3, warmup_steps: 2000}}
//     - {samples: 500k, epochs: 4}
//     - {samples: all, steps: 200000, schedule: {rate: 5e-4}}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/optim/schedule.h"

namespace sotto::train {

// Number of samples of a stage: a number, a share of the data, or all of it.
struct StageSize {
  enum class Kind { kCount, kShare, kAll };

  Kind kind = Kind::kAll;
  int64_t count = 0;     // for kCount
  double percent = 0.0;  // for kShare

  // Parses "5000", "100k", "1.5M", "25%", "all". Throws ConfigError for anything else.
  static StageSize parse(std::string_view text);
  // Returns a text that parse() reads back to the same value.
  std::string to_string() const;

  // Returns the number of samples of data with `available` samples. A count may exceed them.
  int64_t of(int64_t available) const;

  friend bool operator==(const StageSize&, const StageSize&) = default;
};

struct StageOptions {
  StageSize samples;
  // Length of the stage: one of them is set, the other is 0.
  int64_t epochs = 0;
  int64_t steps = 0;
  // The schedule of this stage, over its own steps.
  optim::ScheduleOptions schedule;

  void visit(OptionVisitor& visitor);
  void validate() const;  // throws ConfigError
};

// Throws ConfigError where a stage is smaller than the one before it, as far as this is known
// without the data.
void check_order(const std::vector<StageOptions>& stages);

// Returns the number of samples of each stage for data with `available` samples. Throws ConfigError
// where a stage has more than that, or fewer than the stage before it.
std::vector<int64_t> stage_sizes(const std::vector<StageOptions>& stages, int64_t available);

// Describes the lengths of stages: "25% for 4 epochs, all for 1,000 steps".
std::string describe(const std::vector<StageOptions>& stages);

}  // namespace sotto::train
