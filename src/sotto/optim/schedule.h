// The learning rate as a plain function of the step: nothing to store, nothing to resume.
//
// Steps count from 1, and the rate of step s is what the schedules of transformers
// (get_linear_schedule_with_warmup and its siblings) give for their count of s - 1 finished steps:
// curves can be compared step by step. Warm-up therefore begins at 0.
#pragma once

#include <array>
#include <cstdint>

#include "sotto/core/options.h"

namespace sotto::optim {

enum class ScheduleKind { kConstant, kLinear, kCosine, kNoam };

inline constexpr std::array kScheduleKinds = {
    Named<ScheduleKind>{"constant", ScheduleKind::kConstant},
    Named<ScheduleKind>{"linear", ScheduleKind::kLinear},
    Named<ScheduleKind>{"cosine", ScheduleKind::kCosine},
    Named<ScheduleKind>{"noam", ScheduleKind::kNoam},
};

struct ScheduleOptions {
  // What follows the warm-up: the peak until the end; a straight line, or half a cosine, down to
  // the final rate at the end; or the inverse square root of the step (Vaswani et al., "Attention
  // Is All You Need", equation 3, with the peak named here instead of derived from the width).
  ScheduleKind kind = ScheduleKind::kLinear;
  // The peak, reached when the warm-up ends.
  double rate = 1e-4;
  // Steps of a straight line from 0 to the peak.
  int64_t warmup_steps = 0;
  // The rate at the end, as a share of the peak; a constant rate does not fall to it, and the
  // inverse square root does not fall below it.
  double final_ratio = 0.0;

  void visit(OptionVisitor& visitor) {
    visitor.choice("kind", kind, "how the learning rate goes on after the warm-up", kScheduleKinds);
    visitor.value("rate", rate, "learning rate at its peak", {.min = 0});
    visitor.value("warmup_steps", warmup_steps, "steps from a rate of 0 to the peak", {.min = 0});
    visitor.value("final_ratio", final_ratio, "rate at the end as a share of the peak",
                  {.min = 0, .max = 1});
  }
};

// The learning rate of `step`, which counts from 1, in a run of `total_steps`. Steps beyond the
// total keep the final rate. `total_steps` says nothing to a constant or noam schedule.
double rate_at(const ScheduleOptions& options, int64_t step, int64_t total_steps);

}  // namespace sotto::optim
