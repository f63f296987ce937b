// Input of the planner: a configuration, its open settings, and the target device and budget.
#pragma once

#include <functional>
#include <vector>

#include "sotto/kernels/base/cost.h"
#include "sotto/models/model.h"
#include "sotto/train/step/run_config.h"
#include "sotto/train/step/step_budget.h"

namespace sotto::plan {

// Settings that the planner decides; the others stay as configured.
struct OpenChoices {
  bool numerics = true;
  bool state = true;
  bool tier = true;
  bool max_frames = true;
  bool micro_batch = true;
  // Language models only.
  bool loss_rows = true;
  // Settings that do not affect device memory.
  bool loader_threads = true;
  bool cache = true;
  bool checkpoint_seconds = true;

  bool any() const {
    return numerics || state || tier || max_frames || micro_batch || loss_rows || loader_threads ||
           cache || checkpoint_seconds;
  }

  static constexpr OpenChoices none() {
    return {.numerics = false,
            .state = false,
            .tier = false,
            .max_frames = false,
            .micro_batch = false,
            .loss_rows = false,
            .loader_threads = false,
            .cache = false,
            .checkpoint_seconds = false};
  }
};

struct PlanRequest {
  train::RunConfig config;
  OpenChoices open;
  models::DataShape shape;
  device::Target target;
  train::StepBudget budget;
  // Returns the speed of the device in an arithmetic.
  std::function<kernels::Rates(train::Compute)> rates;
};

// Return the arithmetics that a plan may use, most exact first, and the locations for the
// optimizer's state.
std::vector<train::Numerics> numerics_to_try(const PlanRequest& request);
std::vector<optim::StateLocation> locations_to_try(const PlanRequest& request);

}  // namespace sotto::plan
