// Device memory of a run by component, for each arithmetic side by side: for users who choose
// between them by hand.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sotto/plan/planner.h"

namespace sotto::plan {

// Bytes at the peak of the largest micro-batch, with the optimizer's state on the device.
struct Components {
  train::Numerics numerics = train::Numerics::kFp32;
  int64_t weights = 0;
  // Remainders that extend bf16 weights towards fp32.
  int64_t remainder = 0;
  int64_t gradients = 0;
  int64_t momentum = 0;
  int64_t variance = 0;
  int64_t activations = 0;
  // Workspace, data, and fragmentation.
  int64_t other = 0;
  // None on a CPU without instructions for the arithmetic: its rates would take minutes to measure.
  std::optional<double> speed = std::nullopt;

  int64_t total() const {
    return weights + remainder + gradients + momentum + variance + activations + other;
  }
};

// Returns the components for each arithmetic that the target supports, at the tier and with the
// micro-batches of `candidate`, regardless of the budget.
std::vector<Components> components_of(const Candidate& candidate, const PlanRequest& request,
                                      const data::Source& source);

}  // namespace sotto::plan
