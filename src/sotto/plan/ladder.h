// What can be given up where a budget does not suffice, from what costs least to what costs most.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sotto/plan/plan_request.h"
#include "sotto/plan/search.h"

namespace sotto::plan {

// A setting that saves memory, and the arena that the run then needs at least.
struct Rung {
  // "tier", "block".
  std::string key;
  std::string value;
  // "slower, the same result"
  std::string effect;
  // A run that goes on may take it.
  bool keeps_result = false;
  int64_t least_bytes = 0;

  // "--set tier=block (slower, the same result)"
  std::string to_string() const;
};

// What the configuration needs as it is, with nothing open but how its steps are split; nothing
// where no split is possible.
std::optional<device::MemoryReport> least_of(const PlanRequest& request, const data::Source& source,
                                             const PlannedEpoch& epoch);

// Each with all before it; what saves nothing is left out, and so is what a plan changes by itself,
// because it is open. Settings that change nothing of the result come first.
// `least_bytes`: what the configuration needs as it is.
std::vector<Rung> make_ladder(const PlanRequest& request, const data::Source& source,
                              const PlannedEpoch& epoch, int64_t least_bytes);

}  // namespace sotto::plan
