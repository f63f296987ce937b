// facts.json of a run: what is known before its first step, for reports.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "sotto/device/run_device.h"
#include "sotto/plan/host_choices.h"
#include "sotto/plan/step_time.h"
#include "sotto/train/run/trainer.h"

namespace sotto::plan {

inline constexpr const char* kFactsFile = "facts.json";

// The planner's part: reasons of the decisions and the predicted time of a step. Empty where
// nothing was open.
struct DecisionFacts {
  std::vector<Reason> reasons = {};
  StepTime time = {};
};

nlohmann::ordered_json facts_json(const train::RunPlan& plan, const train::RunConfig& config,
                                  const device::RunDevice& device, const DecisionFacts& decisions);

}  // namespace sotto::plan
