// Who holds the memory of a GPU: the processes that the driver names, and the remainder, which the
// driver itself holds and processes that are not visible, as those outside of a container.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sotto/device/gpu_info.h"

namespace sotto::device {

struct MemoryHolder {
  // Empty if it is unknown.
  std::string name = {};
  // std::nullopt for the remainder.
  std::optional<int64_t> pid = {};
  // std::nullopt if the driver does not report it.
  std::optional<int64_t> bytes = {};
};

// Returns all holders, the remainder last. `except_pid`: a process that is left out.
std::vector<MemoryHolder> memory_holders(const GpuInfo& gpu,
                                         std::optional<int64_t> except_pid = std::nullopt);

// Returns whether others than the driver hold memory: a process, or a remainder that is larger than
// what a driver takes on an idle card.
bool are_programs(const std::vector<MemoryHolder>& holders);

// Formats as "python3 (pid 4242) 3.00 GiB, driver and hidden processes 1.50 GiB"; empty for no
// holders.
std::string describe_holders(const std::vector<MemoryHolder>& holders);

// Returns the name, or "unknown".
std::string holder_name(const MemoryHolder& holder);

}  // namespace sotto::device
