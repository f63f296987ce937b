// What a run holds on its device, part by part, in one arithmetic beside another: for people who
// decide between them by hand.
#pragma once

#include <cstdint>
#include <vector>

#include "sotto/plan/planner.h"

namespace sotto::plan {

// At the peak of the largest micro-batch, with the optimizer's state on the device.
struct Components {
  train::Numerics numerics = train::Numerics::kFp32;
  int64_t weights = 0;
  // What bf16 weights lack to be fp32.
  int64_t remainder = 0;
  int64_t gradients = 0;
  int64_t momentum = 0;
  int64_t variance = 0;
  int64_t activations = 0;
  // Workspace, data, and what lies between blocks.
  int64_t other = 0;
  double speed = 0.0;

  int64_t total() const {
    return weights + remainder + gradients + momentum + variance + activations + other;
  }
};

// Of each arithmetic that the target has, at the tier and in the micro-batches of a way, whatever
// the budget is.
std::vector<Components> components_of(const Way& way, const PlanRequest& request,
                                      const data::Source& source);

}  // namespace sotto::plan
