// The limits of micro-batches that a run starts or goes on with.
#pragma once

#include <optional>
#include <string>

#include "sotto/train/step/fit.h"
#include "sotto/train/step/run_config.h"

namespace sotto::train {

// What limits are found for: the budget as it was named, the name of the device, and the limits
// that the configuration has.
struct LimitsBasis {
  std::string memory;
  std::string device;
  MicroBatchLimits named;

  friend bool operator==(const LimitsBasis&, const LimitsBasis&) = default;
};

LimitsBasis basis_of(const RunConfig& config, const std::string& device);

// What a run that goes on had.
struct EarlierLimits {
  MicroBatchLimits limits;
  // What was learned on this device and under these settings: wider ones ran out of memory.
  MicroBatchLimits learned = {};
  // On the same device, under the same settings of memory and of limits.
  bool is_same_budget = true;
};

struct RunLimits {
  Fit fit;
  // What became of the earlier limits, for the user; empty where they hold.
  std::string note = {};
};

// Earlier limits hold at the same budget, where they still fit into it, since a run goes on to the
// bit only with them; they are raised to the largest item of the run. Otherwise limits are found
// by the budget.
RunLimits find_run_limits(BudgetFit& fit, const StepBudget& budget, const RunConfig& config,
                          const StepSettings& settings,
                          const std::optional<EarlierLimits>& earlier);

}  // namespace sotto::train
