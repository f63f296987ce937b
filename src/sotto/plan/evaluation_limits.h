// How much is evaluated at once beside what training keeps, and why.
#pragma once

#include "sotto/plan/explanation.h"

namespace sotto::plan {

// Not a setting: a run works it out. Throws ConfigError where the longest item of `dev` does not
// fit.
Reason tell_evaluation(const Way& way, const PlanRequest& request, const data::Source& dev);

}  // namespace sotto::plan
