// How much is evaluated at once in addition to what training keeps, and why.
#pragma once

#include "sotto/plan/explanation.h"

namespace sotto::plan {

// The value is not a setting: a run computes it. Throws ConfigError where the longest item of `dev`
// does not fit.
Reason print_evaluation(const Candidate& candidate, const PlanRequest& request,
                        const data::Source& dev);

}  // namespace sotto::plan
