#include "sotto/plan/evaluation_limits.h"

#include "sotto/core/units.h"

namespace sotto::plan {

Reason print_evaluation(const Candidate& candidate, const PlanRequest& request,
                        const data::Source& dev) {
  train::DryRun dry(candidate.config, request.shape, train::DryRun::Purpose::kTraining,
                    request.target);
  const train::Fit fit = train::fit_recognition(dry, dev, request.budget, candidate.fit.limits);
  return {
      .key = "evaluation",
      .value = fmt::format("{} frames", fit.limits.max_frames),
      .brief = fmt::format("at a time, using {} of {}", format_bytes(fit.worst.high_water),
                           format_bytes(request.budget.bytes)),
      .why = fmt::format("uses {} of {}, including the state of training; nothing is kept for "
                         "backward",
                         format_bytes(fit.worst.high_water), format_bytes(request.budget.bytes)),
      .is_setting = false};
}

}  // namespace sotto::plan
