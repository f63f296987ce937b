// A plan with everything that it was made from, based on the description of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sotto/plan/host_choices.h"
#include "sotto/plan/planner.h"
#include "sotto/plan/run/run_description.h"
#include "sotto/train/step/run_data.h"

namespace sotto::plan {

// One stage of a planned run.
struct PlannedStage {
  std::string name;
  int64_t num_samples = 0;
  int64_t num_steps = 0;
  // Length in seconds or tokens of all its steps.
  double length = 0.0;
};

// Facts about a plan beyond its request.
struct PlanFacts {
  std::string device_name;
  // The card is not in this machine: its rates are published ones.
  bool is_elsewhere = false;
  int64_t budget_bytes = 0;
  int64_t constant_bytes = 0;
  std::string data_name;
  // Length of the whole run in seconds or tokens; and in words: "10 epochs".
  double run_length = 0.0;
  std::string run_name;
  // Empty for a run without stages.
  std::vector<PlannedStage> stages = {};
  const Task* task = &kTranscription;
  // Price per hour on the device; 0: unknown.
  double price = 0.0;
  HostChoices host = {};
};

struct MadePlan {
  PlanFacts facts;
  // Its budget is that of the plan, also where none was configured.
  PlanRequest request;
  // Objects that the planner refers to; `data` is null where no data is named.
  std::shared_ptr<train::RunData> data;
  std::shared_ptr<data::Source> source;
  std::shared_ptr<Planner> planner;
  Plan plan;
  // Prefix of numbered folders of plans without a name.
  std::string model_name;
};

// The memory that a plan may take: the configured budget, as much as the fastest plan takes, or the
// least in which anything fits.
enum class PlanBudget { kConfigured, kUnlimited, kSmallest };

struct PlanTerms {
  PlanBudget budget = PlanBudget::kConfigured;
  // A card whose memory and capabilities are simulated on the GPU; empty: none.
  std::string pretended_device = {};
  train::Note noted = {};
};

// Throws Infeasible where nothing fits.
MadePlan make_plan(const RunDescription& run, const PlanTerms& terms = {});

}  // namespace sotto::plan
