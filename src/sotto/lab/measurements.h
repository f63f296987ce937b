// Measurements and predictions that an experiment makes in addition to its training.
#pragma once

#include "sotto/device/opened_device.h"
#include "sotto/lab/experiment.h"

namespace sotto::lab {

StepMemory memory_of(const device::MemoryReport& report);

// Predicts the steps of the first epoch, each as one micro-batch, whether they fit or not.
StepMemory predict_whole(const train::RunConfig& config, const device::OpenedDevice& opened);

// Finds the largest batch in one micro-batch within the budget, by trying.
LargestBatch find_largest(train::RunConfig config, const device::OpenedDevice& opened,
                          const LabEvents& events);

}  // namespace sotto::lab
