// Why a plan is what it is: a reason for each setting that was decided, in the words of its
// numbers.
#pragma once

#include <string>
#include <vector>

#include "sotto/core/config_tree.h"
#include "sotto/plan/planner.h"

namespace sotto::plan {

struct Reason {
  // "optimizer.state"
  std::string key;
  std::string value;
  std::string why;
};

// Of what was open.
std::vector<Reason> reasons_of(const Plan& plan, const PlanRequest& request);

// The complete configuration of the run, with a reason above each setting that was decided.
ConfigNode write_plan(const Plan& plan, const PlanRequest& request);

}  // namespace sotto::plan
