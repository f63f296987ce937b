#include "cli/commands/opened_device.h"

#include "sotto/device/budget.h"

namespace sotto::cli {

OpenedDevice::OpenedDevice(const MemorySize& memory, const std::string& name,
                           const std::string& pretended, bool is_deterministic)
    : device(device::open_device(name, pretended, is_deterministic)),
      budget_bytes(device::resolve_budget(memory, device.memory, device.name)) {}

}  // namespace sotto::cli
