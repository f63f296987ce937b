// What a plan is made for: the device at hand, or a card of the table that is somewhere else, with
// its budget and how fast it is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sotto/device/opened_device.h"
#include "sotto/kernels/base/cost.h"
#include "sotto/plan/plan_request.h"
#include "sotto/train/step/run_config.h"
#include "sotto/train/step/step_budget.h"

namespace sotto::plan {

struct PlannedDevice {
  device::Target target;
  // Its rates are published ones, and what libraries take is allowed for.
  bool is_elsewhere = false;
  train::NamedBudget budget;
  // What libraries take of it.
  int64_t constant_bytes = 0;
  std::function<kernels::Rates(train::Compute)> rates;

  // A plan for it. Throws Infeasible where libraries leave nothing of the budget.
  PlanRequest request(const train::RunConfig& config, const OpenChoices& open,
                      const models::DataShape& shape) const;
};

// By config.device: cpu, cuda, cuda:N, or a name of the table. Throws ConfigError where there is
// none such.
PlannedDevice planned_device(const train::RunConfig& config);

// A device that is open already.
PlannedDevice planned_device(const train::RunConfig& config, const device::OpenedDevice& opened);

}  // namespace sotto::plan
