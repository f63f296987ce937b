// The learning rate as a pure function of the step: there is no state to store or resume. Only a
// plateau depends on evaluations (Plateau).
//
// Steps count from 1, and the rate of step s is what the schedules of transformers
// (get_linear_schedule_with_warmup and its siblings) give for their count of s - 1 finished steps:
// curves can be compared step by step. Warm-up therefore begins at 0.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "sotto/core/config/options.h"

namespace sotto::optim {

enum class ScheduleKind { kConstant, kLinear, kCosine, kInverseSqrt, kTriStage, kPlateau };

inline constexpr std::array kScheduleKinds = {
    Named<ScheduleKind>{"constant", ScheduleKind::kConstant},
    Named<ScheduleKind>{"linear", ScheduleKind::kLinear},
    Named<ScheduleKind>{"cosine", ScheduleKind::kCosine},
    Named<ScheduleKind>{"inverse_sqrt", ScheduleKind::kInverseSqrt},
    Named<ScheduleKind>{"tri_stage", ScheduleKind::kTriStage},
    Named<ScheduleKind>{"plateau", ScheduleKind::kPlateau},
};

struct ScheduleOptions {
  // Shape after the warm-up: constant peak; linear or cosine decay to the final rate at the end;
  // inverse square root of the step (Vaswani et al., "Attention Is All You Need", equation 3, with
  // the peak given here instead of derived from the width); constant peak followed by exponential
  // decay to the final rate (fairseq's tri-stage, Park et al., "SpecAugment", section 4.1); or the
  // peak, reduced each time that evaluations stop improving.
  ScheduleKind kind = ScheduleKind::kLinear;
  // The peak, reached at the end of the warm-up.
  double rate = 1e-4;
  // Number of steps of linear warm-up from 0 to the peak; or, instead, their fraction of all steps.
  int64_t warmup_steps = 0;
  double warmup_share = 0.0;
  // Fraction of all steps in which tri_stage holds the peak.
  double hold_share = 0.0;
  // The rate at the end, as a fraction of the peak; a constant rate does not decay to it, and for
  // the inverse square root and a plateau it is the lower bound.
  double final_ratio = 0.0;
  // Multiplier of a plateau's rate, applied when more than plateau_patience consecutive evaluations
  // did not improve on the best.
  double plateau_factor = 0.5;
  int64_t plateau_patience = 2;

  void visit(OptionVisitor& visitor);
  void validate() const;  // throws ConfigError
};

// Returns the learning rate of `step`, counted from 1, in a run of `total_steps`. Steps beyond the
// total keep the final rate. Schedules without an end use `total_steps` only where the warm-up is a
// fraction of it.
double rate_at(const ScheduleOptions& options, int64_t step, int64_t total_steps);

// State of a plateau; plain numbers, stored in checkpoints. For other schedules it never changes.
struct Plateau {
  // The best value so far; lower is better.
  double best = std::numeric_limits<double>::infinity();
  // Evaluations since the best, or since the rate was last reduced.
  int64_t num_worse = 0;
  // Multiplier of the schedule's rate.
  double factor = 1.0;

  // Called after an evaluation.
  void update(const ScheduleOptions& options, double value);
};

}  // namespace sotto::optim
