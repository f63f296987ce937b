#include "sotto/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sotto::optim {

namespace {

// The steps over which noam's rate falls where no warm-up names them: transformers' number.
constexpr int64_t kNoamSteps = 10'000;

// The share of the steps after the warm-up that are done, from 0 to 1.
double progress(int64_t done, int64_t warmup, int64_t total) {
  const auto steps = static_cast<double>(std::max<int64_t>(1, total - warmup));
  return std::min(1.0, static_cast<double>(done - warmup) / steps);
}

double inverse_square_root(int64_t done, int64_t warmup) {
  const int64_t scale = warmup > 0 ? warmup : kNoamSteps;
  return std::sqrt(static_cast<double>(scale) / static_cast<double>(done - warmup + scale));
}

}  // namespace

double rate_at(const ScheduleOptions& options, int64_t step, int64_t total_steps) {
  SOTTO_ASSERT(step >= 1, "step {}, counted from 1", step);
  const int64_t done = step - 1;
  const int64_t warmup = options.warmup_steps;
  if (done < warmup) {
    return options.rate * static_cast<double>(done) / static_cast<double>(warmup);
  }
  const auto between = [&](double share) {  // 1: the peak, 0: the final rate
    return options.rate * (options.final_ratio + (1.0 - options.final_ratio) * share);
  };
  switch (options.kind) {
    case ScheduleKind::kConstant: return options.rate;
    case ScheduleKind::kLinear: return between(1.0 - progress(done, warmup, total_steps));
    case ScheduleKind::kCosine:
      return between(0.5 *
                     (1.0 + std::cos(std::numbers::pi * progress(done, warmup, total_steps))));
    case ScheduleKind::kNoam:
      return options.rate * std::max(options.final_ratio, inverse_square_root(done, warmup));
  }
  SOTTO_ASSERT(false, "a schedule of no known kind");
  return 0.0;
}

}  // namespace sotto::optim
