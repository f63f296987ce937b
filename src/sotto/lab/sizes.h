// Experiments of a suite of sizes: the memory and speed of a network within a budget, with
// micro-batches of a given size, or in the smallest budget in which it can be trained.
#pragma once

#include "sotto/lab/experiment.h"

namespace sotto::lab {

// Plans the run and, on a device of this machine, runs the largest steps that its data has. Throws
// Infeasible where nothing fits, and Interrupted.
void measure_size(const ExperimentRequest& request, const LabEvents& events, Result& result);

}  // namespace sotto::lab
