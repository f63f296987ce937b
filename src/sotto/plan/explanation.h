// Why a plan is what it is: a reason for each setting that was decided, in the words of its
// numbers.
#pragma once

#include <string>
#include <vector>

#include "sotto/core/config/config_tree.h"
#include "sotto/plan/host_choices.h"
#include "sotto/plan/planner.h"

namespace sotto::plan {

// Of what was open; those of the host behind those of the device.
std::vector<Reason> reasons_of(const Plan& plan, const PlanRequest& request,
                               const HostChoices& host = {});

// The complete configuration of the run, with a reason above each setting that was decided.
ConfigNode write_plan(const Plan& plan, const PlanRequest& request, const HostChoices& host = {});

}  // namespace sotto::plan
