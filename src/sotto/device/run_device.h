// A device as a run uses it: where tensors live, what kernels may choose by, and what is taken
// there besides the arena.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sotto/device/budget.h"
#include "sotto/device/target.h"

namespace sotto::device {

struct RunDevice {
  c10::Device torch = c10::Device(c10::kCPU);
  Target target = {};
  // "CPU", "NVIDIA H200", "t4 (pretended on NVIDIA H200)"
  std::string name = "CPU";
  MemoryAvailable memory = {};
  // Of a GPU: what it shows as used by all processes before this one came.
  int64_t used_before_bytes = 0;
  std::string uuid = {};
};

// `name`: cpu, cuda or cuda:N. `pretended`: a name of the device table whose memory and abilities
// are laid over the GPU; empty: none. Throws ConfigError where there is no such device, or a
// setting could not take effect.
RunDevice open_device(std::string_view name, std::string_view pretended = {},
                      bool is_deterministic = false);

// Share of the host's free RAM that `host_memory: auto` stands for.
inline constexpr double kDefaultHostShare = 0.75;

// Bytes of host memory that a run may take in addition to its budget on the device; page-locked for
// a GPU. Nothing is taken before it is needed. `keeps`: the run keeps the optimizer's state or the
// inputs of layers there. Throws ConfigError for a size on the CPU where it keeps nothing: the
// setting could not take effect.
int64_t resolve_host_budget(const MemorySize& budget, const Target& target, bool keeps);

// What this process takes on the GPU now, arenas included: as the driver's own tools show it.
int64_t used_by_this_process(const RunDevice& device);

// How full the device is by all processes: RAM for the CPU. Nothing where the machine does not
// tell.
using MemoryReading = std::function<std::optional<MemoryAvailable>()>;
// For who asks again and again: what it takes to ask is made once.
MemoryReading watch_memory(const RunDevice& device);

}  // namespace sotto::device
