// A device as a run uses it: location of its tensors, properties by which kernels are selected, and
// memory taken there outside of the arena.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/device/budget.h"
#include "sotto/device/memory_holders.h"
#include "sotto/device/target.h"

namespace sotto::device {

struct RunDevice {
  c10::Device torch = c10::Device(c10::kCPU);
  Target target = {};
  // Examples: "CPU", "NVIDIA H200", "t4 (pretended on NVIDIA H200)"
  std::string name = "CPU";
  MemoryAvailable memory = {};
  // For a GPU: memory used by all processes before this one started using it.
  int64_t used_before_bytes = 0;
  // For a GPU: who held its memory at that time.
  std::vector<MemoryHolder> holders = {};
  std::string uuid = {};
};

// Opens a device. `name`: cpu, cuda or cuda:N. `pretended`: a name of the device table whose memory
// and capabilities are simulated on the GPU; empty: none. Throws ConfigError where there is no such
// device, or where a setting could not take effect.
RunDevice open_device(std::string_view name, std::string_view pretended = {},
                      bool is_deterministic = false);

// Fraction of the host's free RAM that `host_memory: auto` uses.
inline constexpr double kDefaultHostShare = 0.75;

// Returns the bytes of host memory that a run may take in addition to its budget on the device;
// page-locked for a GPU. Memory is allocated only when it is needed. `keeps`: the run keeps the
// optimizer's state or the inputs of layers there. Throws ConfigError for a size on the CPU if the
// run keeps nothing there: the setting could not take effect.
int64_t resolve_host_budget(const MemorySize& budget, const Target& target, bool keeps);

// Returns the current GPU memory of this process, including arenas, as the driver's own tools
// report it.
int64_t used_by_this_process(const RunDevice& device);

// Reads the device memory used by all processes: RAM for the CPU. Returns std::nullopt if the
// machine does not report it.
using MemoryReading = std::function<std::optional<MemoryAvailable>()>;
// Returns a function for repeated readings, which share one setup.
MemoryReading watch_memory(const RunDevice& device);

}  // namespace sotto::device
