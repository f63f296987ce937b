// The first step of a process as the dry run had it, and as it was: the proof that the settings
// took effect.
#pragma once

#include "sotto/device/arena.h"
#include "sotto/train/step/run_config.h"

namespace sotto::train {

struct MemoryComparison {
  device::MemoryReport planned;
  device::MemoryReport measured;
  // To the byte, with the moment of the peak and the placement.
  bool is_equal = false;
};

MemoryComparison compare_memory(device::MemoryReport planned, device::MemoryReport measured);

// Throws InternalError where a kind of memory is not what the configuration asks for: what stays
// behind the step must be as planned to the byte, what is there at its peak to the monitor's
// tolerance. The message names the kind, its bytes, and the setting that decides them.
void check_settings_took_effect(const MemoryComparison& comparison, const RunConfig& config);

}  // namespace sotto::train
