#include "sotto/device/opened_device.h"

#include "sotto/device/budget.h"

namespace sotto::device {

OpenedDevice::OpenedDevice(const MemorySize& memory, const std::string& name,
                           const std::string& pretended, bool is_deterministic)
    : device(open_device(name, pretended, is_deterministic)),
      budget_bytes(resolve_budget(memory, device.memory, device.name)) {}

}  // namespace sotto::device
