// What is planned: a configuration, what of it is open, and the device and budget that it is for.
#pragma once

#include <functional>
#include <vector>

#include "sotto/kernels/base/cost.h"
#include "sotto/models/model.h"
#include "sotto/train/step/run_config.h"
#include "sotto/train/step/step_budget.h"

namespace sotto::plan {

// What is the planner's to decide; the rest stays as the configuration has it.
struct OpenChoices {
  bool numerics = true;
  bool state = true;
  bool tier = true;
  bool max_frames = true;
  bool micro_batch = true;
  // Of a language model.
  bool loss_rows = true;
  // What does not touch the device's memory.
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
  // How fast the device is in an arithmetic.
  std::function<kernels::Rates(train::Compute)> rates;
};

// Arithmetics that a plan may take, from the most exact on; and places of the optimizer's state.
std::vector<train::Numerics> numerics_to_try(const PlanRequest& request);
std::vector<optim::StatePlace> places_to_try(const PlanRequest& request);

}  // namespace sotto::plan
