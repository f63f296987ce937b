// The effect of other budgets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sotto/plan/planner.h"

namespace sotto::plan {

// The best alternative for another budget; none where it does not fit.
struct Outlook {
  int64_t arena_bytes = 0;
  std::optional<Candidate> candidate;
};

// Returns one entry per arena, in the given order.
std::vector<Outlook> look_around(Planner& planner, const std::vector<int64_t>& arenas);

// Returns the duration in seconds of the longest utterance that fits in any alternative; 0 where
// there is none.
double longest_fitting_s(const PlanRequest& request, const data::Source& source);

}  // namespace sotto::plan
