// Converts the budget that a user specifies to bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sotto/core/units.h"

namespace sotto::device {

// Fraction of the free memory that "auto" uses.
inline constexpr double kDefaultBudgetShare = 0.85;

struct MemoryAvailable {
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
  // Who holds the rest, for messages; empty if it is not known.
  std::string held_by = {};
};

// Returns the bytes of a budget on `device_name`. A budget in bytes is used as given. Throws
// ConfigError where it exceeds the free memory; the message states the free memory, who holds the
// rest, and a valid value for `option`.
int64_t resolve_budget(const MemorySize& budget, const MemoryAvailable& available,
                       std::string_view device_name, std::string_view option = "--memory");

}  // namespace sotto::device
