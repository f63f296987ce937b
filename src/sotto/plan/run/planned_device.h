// The device of a plan: a local one, or a card of the table that is not in this machine, with its
// budget and speed.
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
  // Not in this machine: rates are published ones, and the memory of libraries is assumed.
  bool is_elsewhere = false;
  train::NamedBudget budget;
  // Part of the budget used by libraries.
  int64_t constant_bytes = 0;
  std::function<kernels::Rates(train::Compute)> rates;

  // Makes a plan request for this device. Throws Infeasible where libraries leave nothing of the
  // budget.
  PlanRequest request(const train::RunConfig& config, const OpenChoices& open,
                      const models::DataShape& shape) const;
};

// Selects by config.device: cpu, cuda, cuda:N, or a name of the table. `pretended`: a card whose
// memory and capabilities are simulated on the GPU; empty: none. Throws ConfigError where there is
// no such device.
PlannedDevice planned_device(const train::RunConfig& config, const std::string& pretended);

// Uses a device that is already open.
PlannedDevice planned_device(const train::RunConfig& config, const device::OpenedDevice& opened);

}  // namespace sotto::plan
