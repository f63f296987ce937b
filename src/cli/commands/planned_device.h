// What a plan is made for: the device at hand, or a card of the table that is somewhere else, with
// its part of the budget and how fast it is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sotto/device/run_device.h"
#include "sotto/kernels/base/cost.h"
#include "sotto/plan/planner.h"
#include "sotto/train/step/run_config.h"

namespace sotto::cli {

struct PlannedDevice {
  device::Target target;
  std::string name;
  // Its rates are published ones, and what libraries take is allowed for.
  bool is_elsewhere = false;
  int64_t budget_bytes = 0;
  int64_t constant_bytes = 0;
  int64_t host_bytes = 0;
  std::function<kernels::Rates(train::Compute)> rates;

  // A plan for it.
  plan::PlanRequest request(const train::RunConfig& config, const plan::OpenChoices& open,
                            const models::DataShape& shape) const;
};

// By config.device: cpu, cuda, cuda:N, or a name of the table. Throws ConfigError where there is
// none such.
PlannedDevice planned_device(const train::RunConfig& config);

// The device of a run that is open already.
PlannedDevice planned_device(const train::RunConfig& config, const device::RunDevice& device,
                             int64_t budget_bytes);

}  // namespace sotto::cli
