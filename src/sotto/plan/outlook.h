// What another budget would do, and what to change where none is enough.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

// Something that can be given up for memory, and the arena that the run then needs at least.
struct Rung {
  std::string change;
  int64_t least_bytes = 0;
};

// From what costs least to what costs most; each with all before it. Settings that change nothing
// of the result come first. `least_bytes` of the first is that of the configuration as it is.
std::vector<Rung> ladder(const PlanRequest& request, const data::Source& source);

}  // namespace sotto::plan
