// Settings that reduce memory where a budget does not suffice, from the least to the most costly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sotto/plan/plan_request.h"
#include "sotto/plan/search.h"

namespace sotto::plan {

// A setting that saves memory, and the minimum arena of a run with it.
struct Rung {
  // Key and value, such as "tier" and "block".
  std::string key;
  std::string value;
  // Such as "slower, the same result".
  std::string effect = {};
  // A resumed run may use it.
  bool keeps_result = false;
  int64_t least_bytes = 0;

  // Formatted as "--set tier=block (slower, the same result)".
  std::string to_string() const;
};

// Returns the memory that the configuration needs unchanged, where only the split of its steps is
// open; none where no split is possible.
std::optional<device::MemoryReport> least_of(const PlanRequest& request, const data::Source& source,
                                             const PlannedEpoch& epoch);

// Each rung includes all earlier ones; settings that save nothing are omitted, and so are those
// that are open, because a plan changes them by itself. Settings that do not change the result come
// first. `least_bytes`: what the configuration needs unchanged.
std::vector<Rung> make_ladder(const PlanRequest& request, const data::Source& source,
                              const PlannedEpoch& epoch, int64_t least_bytes);

}  // namespace sotto::plan
