// A plan with all that it was made of, from the options of a command.
#pragma once

#include <memory>

#include "cli/commands/run_options.h"
#include "cli/views/plan_view.h"
#include "sotto/train/step/run_data.h"

namespace sotto::cli {

struct MadePlan {
  PlanFacts facts;
  plan::PlanRequest request;
  // What the planner refers to; the data is absent where none is named.
  std::shared_ptr<train::RunData> data;
  std::shared_ptr<data::Source> source;
  std::shared_ptr<plan::Planner> planner;
  plan::Plan plan;
  // What numbered folders of plans without a name begin with.
  std::string model_name;
};

// Throws Infeasible where nothing fits.
MadePlan make_plan(const RunOptions& options);

}  // namespace sotto::cli
