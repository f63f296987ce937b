// How long a step takes, by the costs that its dry run reports and the rates of a device.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sotto/kernels/base/cost.h"

namespace sotto::plan {

struct StepTime {
  // Forward and backward of all micro-batches, and the update.
  double batches_s = 0.0;
  double update_s = 0.0;
  // Of both: what the device waits for the link, and for the host to put kernels on their way.
  double waiting_s = 0.0;
  // What the host takes to put all kernels of the micro-batches on their way.
  double launching_s = 0.0;
  // Of the device's time.
  std::map<std::string, double, std::less<>> by_kernel_s;

  double total_s() const { return batches_s + update_s; }
};

// How many micro-batches a step has, and how many of the one that was recorded: a fraction, where
// the others are shorter.
struct BatchCount {
  int64_t all = 1;
  double alike = 1.0;
};

// Of a step of which one micro-batch and its update were recorded.
StepTime time_of(const kernels::CostRecorder& recorded, const kernels::Rates& rates,
                 const BatchCount& count);

}  // namespace sotto::plan
