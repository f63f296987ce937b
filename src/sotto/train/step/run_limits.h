// The limits of micro-batches with which a run starts or resumes.
#pragma once

#include <optional>
#include <string>

#include "sotto/train/step/fit.h"
#include "sotto/train/step/run_config.h"

namespace sotto::train {

// What limits depend on: the budget as configured, the name of the device, and the configured
// limits.
struct LimitsBasis {
  std::string memory;
  std::string device;
  MicroBatchLimits named;

  friend bool operator==(const LimitsBasis&, const LimitsBasis&) = default;
};

LimitsBasis basis_of(const RunConfig& config, const std::string& device);

// Limits of a resumed run.
struct EarlierLimits {
  MicroBatchLimits limits;
  // Limits learned on this device with these settings: wider ones ran out of memory.
  MicroBatchLimits learned = {};
  // The device and the settings of memory and limits are unchanged.
  bool is_same_budget = true;
};

struct RunLimits {
  Fit fit;
  // What happened to the earlier limits, for the user; empty where they still apply.
  std::string note = {};
};

// Earlier limits are kept where the budget is unchanged and they still fit into it, since only then
// is a resumed run bit-exact; they are raised to the largest item of the run. Otherwise limits are
// found from the budget.
RunLimits find_run_limits(BudgetFit& fit, const StepBudget& budget, const RunConfig& config,
                          const StepSettings& settings,
                          const std::optional<EarlierLimits>& earlier);

}  // namespace sotto::train
