// From the budget a user names to bytes.
#pragma once

#include <cstdint>
#include <string_view>

#include "sotto/core/units.h"

namespace sotto::device {

// Share of what is free that "auto" stands for.
inline constexpr double kDefaultBudgetShare = 0.85;

struct MemoryAvailable {
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
};

// Bytes of a budget on `device_name`. A budget named in bytes is taken whole; above what is free it
// is a ConfigError that says how much is, and what to type for `option`.
int64_t resolve_budget(const MemorySize& budget, const MemoryAvailable& available,
                       std::string_view device_name, std::string_view option = "--memory");

}  // namespace sotto::device
