// The device of a command and its budget there in bytes.
#pragma once

#include <cstdint>
#include <string>

#include "sotto/core/units.h"
#include "sotto/device/run_device.h"

namespace sotto::cli {

struct OpenedDevice {
  // Throws ConfigError where there is no such device, or the budget is more than is free there.
  explicit OpenedDevice(const MemorySize& memory, const std::string& name = "cpu",
                        const std::string& pretended = {}, bool is_deterministic = false);

  device::RunDevice device;
  int64_t budget_bytes;
};

}  // namespace sotto::cli
