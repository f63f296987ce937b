// From a budget to the settings that are fastest inside of it: where the optimizer's state lies,
// what each layer keeps for backward, how large micro-batches are, and, where it is left open, the
// arithmetic. Every memory figure is a dry run's; nothing is estimated by a formula.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sotto/data/source.h"
#include "sotto/device/target.h"
#include "sotto/kernels/cost.h"
#include "sotto/plan/step_time.h"
#include "sotto/train/fit.h"
#include "sotto/train/run_config.h"

namespace sotto::plan {

// What is the planner's to decide; the rest stays as the configuration has it.
struct OpenChoices {
  bool numerics = true;
  bool state = true;
  bool tier = true;
  bool max_frames = true;

  bool any() const { return numerics || state || tier || max_frames; }
};

struct PlanRequest {
  train::RunConfig config;
  OpenChoices open;
  models::DataShape shape;
  device::Target target;
  // The arena's part of the budget, and the host's; what libraries take of it besides.
  train::StepBudget budget;
  int64_t constant_bytes = 0;
  // How fast the device is in an arithmetic.
  std::function<kernels::Rates(train::Compute)> rates;
};

// One way to run inside the budget.
struct Way {
  // With all that was decided.
  train::RunConfig config;
  // The largest micro-batch and what it takes.
  train::Fit fit;
  // Of a step of median length.
  StepTime time;
  double step_audio_s = 0.0;  // of text, tokens
  int64_t micro_batches = 0;

  // Seconds of audio, or tokens, a second.
  double speed() const { return step_audio_s / time.total_s(); }
};

struct Plan {
  Way best;
  // The fastest way with each other place of the state and each other arithmetic that was open,
  // from the fastest on.
  std::vector<Way> others;
};

class Planner {
 public:
  // The source must outlive it.
  Planner(PlanRequest request, const data::Source& source);
  ~Planner();

  // Throws ConfigError where nothing fits; the message names the smallest budget that would do.
  Plan plan();

 private:
  std::vector<train::Numerics> numerics_to_try() const;
  std::vector<optim::StatePlace> places_to_try() const;
  const Way& choose(const std::vector<Way>& ways) const;
  [[noreturn]] void refuse();
  // What a user would have to name for such an arena.
  int64_t budget_for(int64_t arena_bytes) const { return arena_bytes + request_.constant_bytes; }

  PlanRequest request_;
  const data::Source& source_;
  // The step of median length, by places in the source.
  std::vector<uint32_t> typical_;
  // Of ways that do not fit: the least that any of them needs.
  int64_t least_bytes_ = 0;
  std::string least_way_;
};

}  // namespace sotto::plan
