// Compares the memory of a process's first step with the dry run: proof that the settings took
// effect.
#pragma once

#include "sotto/device/arena.h"
#include "sotto/train/step/run_config.h"

namespace sotto::train {

struct MemoryComparison {
  device::MemoryReport planned;
  device::MemoryReport measured;
  // All bytes, the moment of the peak and the placement are equal.
  bool is_equal = false;
};

MemoryComparison compare_memory(device::MemoryReport planned, device::MemoryReport measured);

// Throws InternalError where a kind of memory is not what the configuration asks for: bytes alive
// after the step must match the plan exactly, bytes at its peak within the monitor's tolerance. The
// message names the kind, its bytes, and the setting that determines them.
void check_settings_took_effect(const MemoryComparison& comparison, const RunConfig& config);

}  // namespace sotto::train
