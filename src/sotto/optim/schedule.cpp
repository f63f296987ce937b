#include "sotto/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sotto/core/error.h"

namespace sotto::optim {

namespace {

// Time scale of the inverse square root where no warm-up is given: the default of transformers.
constexpr int64_t kInverseSqrtSteps = 10'000;

// Returns the completed fraction of the steps after the first `begin`, from 0 to 1.
double progress(int64_t done, int64_t begin, int64_t total) {
  const auto steps = static_cast<double>(std::max<int64_t>(1, total - begin));
  return std::clamp(static_cast<double>(done - begin) / steps, 0.0, 1.0);
}

double inverse_square_root(int64_t done, int64_t warmup) {
  const int64_t scale = warmup > 0 ? warmup : kInverseSqrtSteps;
  return std::sqrt(static_cast<double>(scale) / static_cast<double>(done - warmup + scale));
}

// Rounds down to whole steps, as in fairseq.
int64_t share_of(int64_t total, double share) {
  return static_cast<int64_t>(static_cast<double>(total) * share);
}

[[noreturn]] void refuse(std::string found, std::string hint) {
  throw ConfigError(
      {.attempted = "setting up the schedule", .found = std::move(found), .hint = std::move(hint)});
}

}  // namespace

void ScheduleOptions::visit(OptionVisitor& visitor) {
  visitor.choice("kind", kind, "shape of the learning rate after warm-up", kScheduleKinds);
  visitor.value("rate", rate, "peak learning rate", {.min = 0});
  visitor.value("warmup_steps", warmup_steps, "warm-up steps, from 0 to the peak rate", {.min = 0});
  visitor.value("warmup_share", warmup_share, "warm-up as a fraction of all steps",
                {.min = 0, .max = 1});
  visitor.value("hold_share", hold_share, "fraction of all steps at the peak rate, for tri_stage",
                {.min = 0, .max = 1});
  visitor.value("final_ratio", final_ratio, "final rate as a fraction of the peak rate",
                {.min = 0, .max = 1});
  visitor.value("plateau_factor", plateau_factor,
                "factor applied to the rate at each reduction, for plateau",
                {.above = 0, .below = 1});
  visitor.value("plateau_patience", plateau_patience,
                "evaluations without improvement before a reduction, for plateau", {.min = 0});
}

void ScheduleOptions::validate() const {
  const std::string_view name = name_of(kind, kScheduleKinds);
  if (warmup_steps > 0 && warmup_share > 0.0)
    refuse(fmt::format("warmup_steps {} and warmup_share {}", warmup_steps, warmup_share),
           "Set one of them.");
  if (kind != ScheduleKind::kTriStage && hold_share > 0.0)
    refuse(fmt::format("hold_share {} with kind: {}", hold_share, name),
           "Use kind: tri_stage, or remove it.");
  const ScheduleOptions usual;
  const bool has_plateau =
      plateau_factor != usual.plateau_factor || plateau_patience != usual.plateau_patience;
  if (kind != ScheduleKind::kPlateau && has_plateau)
    refuse(fmt::format("plateau_factor {} and plateau_patience {} with kind: {}", plateau_factor,
                       plateau_patience, name),
           "Use kind: plateau, or remove them.");
  if (kind != ScheduleKind::kTriStage) return;
  if (final_ratio == 0.0)
    refuse("tri_stage with final_ratio 0, which exponential decay cannot reach",
           "Set final_ratio: 0.01.");
  if (warmup_share + hold_share > 1.0)
    refuse(fmt::format("warmup_share {} and hold_share {}, together above 1", warmup_share,
                       hold_share),
           "Leave a share for the decay.");
}

double rate_at(const ScheduleOptions& options, int64_t step, int64_t total_steps) {
  SOTTO_ASSERT(step >= 1, "step {}, counted from 1", step);
  const int64_t done = step - 1;
  const int64_t warmup = options.warmup_share > 0.0 ? share_of(total_steps, options.warmup_share)
                                                    : options.warmup_steps;
  if (done < warmup) {
    return options.rate * static_cast<double>(done) / static_cast<double>(warmup);
  }
  const auto between = [&](double share) {  // 1: the peak, 0: the final rate
    return options.rate * (options.final_ratio + (1.0 - options.final_ratio) * share);
  };
  switch (options.kind) {
    case ScheduleKind::kConstant:
    case ScheduleKind::kPlateau: return options.rate;
    case ScheduleKind::kLinear: return between(1.0 - progress(done, warmup, total_steps));
    case ScheduleKind::kCosine:
      return between(0.5 *
                     (1.0 + std::cos(std::numbers::pi * progress(done, warmup, total_steps))));
    case ScheduleKind::kInverseSqrt:
      return options.rate * std::max(options.final_ratio, inverse_square_root(done, warmup));
    case ScheduleKind::kTriStage: {
      const int64_t held = warmup + share_of(total_steps, options.hold_share);
      return options.rate * std::pow(options.final_ratio, progress(done, held, total_steps));
    }
  }
  SOTTO_ASSERT(false, "unknown schedule kind");
  return 0.0;
}

void Plateau::update(const ScheduleOptions& options, double value) {
  if (options.kind != ScheduleKind::kPlateau) return;
  if (value < best) {
    best = value;
    num_worse = 0;
    return;
  }
  if (++num_worse <= options.plateau_patience) return;
  num_worse = 0;
  factor = std::max(options.final_ratio, factor * options.plateau_factor);
}

}  // namespace sotto::optim
