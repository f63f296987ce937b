#include "sotto/device/budget.h"

#include <fmt/format.h>

#include "sotto/core/error.h"

namespace sotto::device {

int64_t resolve_budget(const MemorySize& budget, const MemoryAvailable& available,
                       std::string_view device_name, std::string_view option) {
  const auto free = static_cast<double>(available.free_bytes);
  switch (budget.kind) {
    case MemorySize::Kind::kAuto: return static_cast<int64_t>(kDefaultBudgetShare * free);
    case MemorySize::Kind::kShare: return static_cast<int64_t>(budget.share * free);
    case MemorySize::Kind::kBytes: break;
  }
  if (budget.bytes <= available.free_bytes) return budget.bytes;
  throw Infeasible(
      {.attempted =
           fmt::format("taking a budget of {} on {}", format_bytes(budget.bytes), device_name),
       .found = fmt::format("{} of {} are free{}", format_bytes(available.free_bytes),
                            format_bytes(available.total_bytes),
                            available.held_by.empty() ? "" : "; held by " + available.held_by),
       .expected = "a budget within the free memory",
       .hint = fmt::format("Try {0} {1}MiB or {0} auto.", option, available.free_bytes >> 20)});
}

}  // namespace sotto::device
