#include "sotto/train/step/run_limits.h"

#include <fmt/format.h>

namespace sotto::train {

LimitsBasis basis_of(const RunConfig& config, const std::string& device) {
  return {.memory = config.memory.to_string(), .device = device, .named = limits_of(config)};
}

RunLimits find_run_limits(BudgetFit& fit, const StepBudget& budget, const RunConfig& config,
                          const StepSettings& settings,
                          const std::optional<EarlierLimits>& earlier) {
  if (earlier && earlier->is_same_budget) {
    StepSettings kept = settings;
    kept.limits = raised_to(earlier->limits, settings.largest_item);
    const device::MemoryReport worst = fit.worst_under(config.effective_batch, kept);
    if (budget.holds(worst)) return {.fit = {.limits = kept.limits, .worst = worst}};
  }
  StepSettings open = settings;
  open.limits = limits_of(config);
  if (earlier)
    open.limits = narrower(open.limits, raised_to(earlier->learned, settings.largest_item));
  RunLimits found{.fit = fit.find_limits(config.effective_batch, open)};
  if (earlier && !(found.fit.limits == earlier->limits)) {
    found.note =
        fmt::format("{}: at most {} per micro-batch now, {} before",
                    earlier->is_same_budget ? "the earlier limits do not fit into the budget"
                                            : "the budget, the device or a limit has changed",
                    describe(found.fit.limits), describe(earlier->limits));
  }
  return found;
}

}  // namespace sotto::train
