// Predicts the time of a step from the costs that its dry run reports and the rates of a device.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sotto/kernels/base/cost.h"

namespace sotto::plan {

struct StepTime {
  // Forward and backward of all micro-batches, and the update.
  double batches_s = 0.0;
  double update_s = 0.0;
  // Time within both that the device waits for the link, and for the host to launch kernels.
  double waiting_s = 0.0;
  // Time that the host takes to launch all kernels of the micro-batches.
  double launching_s = 0.0;
  // Device time by kernel.
  std::map<std::string, double, std::less<>> by_kernel_s;

  double total_s() const { return batches_s + update_s; }
};

// A kind of work and its time; `name` is for people: "layer norm, backward".
struct TimePart {
  std::string name;
  double seconds = 0.0;
};

// Returns the kernels that take the most time, the sum of the others, and the time spent waiting.
std::vector<TimePart> parts_of(const StepTime& time, size_t num_kernels = 6);

// Number of micro-batches of a step, and its equivalent in recorded micro-batches: a fraction,
// where the others are shorter.
struct BatchCount {
  int64_t all = 1;
  double alike = 1.0;
};

// Returns the time of a step of which one micro-batch and the update were recorded.
StepTime time_of(const kernels::CostRecorder& recorded, const kernels::Rates& rates,
                 const BatchCount& count);

}  // namespace sotto::plan
