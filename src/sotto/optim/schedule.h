// The learning rate as a plain function of the step: nothing to store, nothing to resume. Only a
// plateau needs to know how evaluations went (Plateau).
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
  // What follows the warm-up: the peak until the end; a straight line, or half a cosine, down to
  // the final rate at the end; the inverse square root of the step (Vaswani et al., "Attention Is
  // All You Need", equation 3, with the peak named here instead of derived from the width); the
  // peak for a while and then the same factor at each step down to the final rate (fairseq's
  // tri-stage, Park et al., "SpecAugment", section 4.1); or the peak, cut down each time that
  // evaluations get no better.
  ScheduleKind kind = ScheduleKind::kLinear;
  // The peak, reached when the warm-up ends.
  double rate = 1e-4;
  // Steps of a straight line from 0 to the peak; or, instead, their share of all steps.
  int64_t warmup_steps = 0;
  double warmup_share = 0.0;
  // Of all steps, those of tri_stage that hold the peak.
  double hold_share = 0.0;
  // The rate at the end, as a share of the peak; a constant rate does not fall to it, and the
  // inverse square root and a plateau do not fall below it.
  double final_ratio = 0.0;
  // What a plateau's rate is multiplied by after so many evaluations in a row, and one more, that
  // were no better than the best.
  double plateau_factor = 0.5;
  int64_t plateau_patience = 2;

  void visit(OptionVisitor& visitor);
  void validate() const;  // throws ConfigError
};

// The learning rate of `step`, which counts from 1, in a run of `total_steps`. Steps beyond the
// total keep the final rate. `total_steps` says nothing to schedules without an end, but where
// the warm-up is a share.
double rate_at(const ScheduleOptions& options, int64_t step, int64_t total_steps);

// What a plateau remembers: plain numbers, for a checkpoint. Those of other schedules never change.
struct Plateau {
  // The best value so far; less is better.
  double best = std::numeric_limits<double>::infinity();
  // Evaluations since the best, or since the rate was last cut down.
  int64_t num_worse = 0;
  // What the schedule's rate is multiplied by.
  double factor = 1.0;

  // After an evaluation.
  void update(const ScheduleOptions& options, double value);
};

}  // namespace sotto::optim
