#include "sotto/train/step/step_budget.h"

#include <fmt/format.h>

#include "sotto/core/units.h"

namespace sotto::train {

std::string StepBudget::expected_text() const {
  return fmt::format("at most the budget of {}", format_bytes(named_for(bytes)));
}

}  // namespace sotto::train
