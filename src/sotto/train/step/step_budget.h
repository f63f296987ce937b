// The memory available to the steps of a run, and how a user's budget is divided.
#pragma once

#include <cstdint>
#include <string>

#include "sotto/device/arena.h"
#include "sotto/device/host_memory.h"

namespace sotto::train {

struct StepBudget {
  // Bytes of the arena.
  int64_t bytes = 0;
  // Bytes of host memory, in addition.
  int64_t host_bytes = device::HostMemory::kUnlimited;
  // Bytes that libraries take on the device outside the arena; the user's budget includes both.
  int64_t constant_bytes = 0;

  bool holds(const device::MemoryReport& report) const {
    return report.high_water <= bytes && report.host_peak <= host_bytes;
  }
  // Returns the budget that a user would have to specify for an arena of this size.
  int64_t named_for(int64_t arena_bytes) const { return arena_bytes + constant_bytes; }
  // Describes the device's budget: "at most the budget of 8.00 GiB".
  std::string expected_text() const;
};

// A budget as specified by the user, in bytes.
struct NamedBudget {
  int64_t bytes = 0;
  int64_t host_bytes = device::HostMemory::kUnlimited;
  std::string device_name = "CPU";
};

// `constant_bytes`: memory of libraries on the device, measured or assumed. Throws Infeasible where
// it leaves nothing for the arena.
StepBudget divide_budget(const NamedBudget& named, int64_t constant_bytes);

}  // namespace sotto::train
