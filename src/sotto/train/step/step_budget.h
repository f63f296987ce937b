// What the steps of a run may take, and how the budget that a user names is divided for it.
#pragma once

#include <cstdint>
#include <string>

#include "sotto/device/arena.h"
#include "sotto/device/host_memory.h"

namespace sotto::train {

struct StepBudget {
  // Of the arena.
  int64_t bytes = 0;
  // Of the host, in addition.
  int64_t host_bytes = device::HostMemory::kUnlimited;
  // What libraries take on the device beside the arena: the budget that a user names has both.
  int64_t constant_bytes = 0;

  bool holds(const device::MemoryReport& report) const {
    return report.high_water <= bytes && report.host_peak <= host_bytes;
  }
  // What a user would have to name for such an arena.
  int64_t named_for(int64_t arena_bytes) const { return arena_bytes + constant_bytes; }
  // Of the device: "at most the budget of 8.00 GiB".
  std::string expected_text() const;
};

// A budget as the user named it, in bytes.
struct NamedBudget {
  int64_t bytes = 0;
  int64_t host_bytes = device::HostMemory::kUnlimited;
  std::string device_name = "CPU";
};

// `constant_bytes`: what libraries take on the device, measured or allowed for. Throws Infeasible
// where it leaves nothing for the arena.
StepBudget divide_budget(const NamedBudget& named, int64_t constant_bytes);

}  // namespace sotto::train
