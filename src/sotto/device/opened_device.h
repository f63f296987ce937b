// A device that is open, and the budget on it in bytes.
#pragma once

#include <cstdint>
#include <string>

#include "sotto/core/units.h"
#include "sotto/device/run_device.h"

namespace sotto::device {

struct OpenedDevice {
  // Throws ConfigError where there is no such device, or the budget is more than is free there.
  explicit OpenedDevice(const MemorySize& memory, const std::string& name = "cpu",
                        const std::string& pretended = {}, bool is_deterministic = false);

  RunDevice device;
  int64_t budget_bytes;
};

}  // namespace sotto::device
