// What another budget would do.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sotto/plan/planner.h"

namespace sotto::plan {

// The best way in another budget; nothing where it does not fit.
struct Outlook {
  int64_t arena_bytes = 0;
  std::optional<Way> way;
};

// In their order.
std::vector<Outlook> look_around(Planner& planner, const std::vector<int64_t>& arenas);

// Seconds of the longest utterance that any way has room for; 0 where there is none.
double longest_fitting_s(const PlanRequest& request, const data::Source& source);

}  // namespace sotto::plan
