// An open device, and the budget on it in bytes.
#pragma once

#include <cstdint>
#include <string>

#include "sotto/core/units.h"
#include "sotto/device/run_device.h"

namespace sotto::device {

struct OpenedDevice {
  // Opens a device. Throws ConfigError where it does not exist, or where the budget exceeds its
  // free memory.
  explicit OpenedDevice(const MemorySize& memory, const std::string& name = "cpu",
                        const std::string& pretended = {}, bool is_deterministic = false);

  RunDevice device;
  int64_t budget_bytes;
};

}  // namespace sotto::device
