#include "sotto/train/step/step_budget.h"

#include <fmt/format.h>

#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto::train {

std::string StepBudget::expected_text() const {
  return fmt::format("at most the budget of {}", format_bytes(named_for(bytes)));
}

StepBudget divide_budget(const NamedBudget& named, int64_t constant_bytes) {
  if (constant_bytes < named.bytes)
    return {.bytes = named.bytes - constant_bytes,
            .host_bytes = named.host_bytes,
            .constant_bytes = constant_bytes};
  throw Infeasible({.attempted = fmt::format("taking a budget of {} on {}",
                                             format_bytes(named.bytes), named.device_name),
                    .found = fmt::format("the driver and its libraries alone take {}",
                                         format_bytes(constant_bytes)),
                    .expected = "a budget above that",
                    .hint = fmt::format("Try --memory {}.", format_mebibytes(2 * constant_bytes))});
}

}  // namespace sotto::train
