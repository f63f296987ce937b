// The machine as sotto sees it: host and GPUs in one plain struct, with conversion to JSON. Printed
// by `sotto profile` and used as the input of a plan.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sotto/device/gpu_info.h"
#include "sotto/device/host_info.h"

namespace sotto::device {

struct HardwareProfile {
  HostInfo host;
  GpuProfile gpu;
};

HardwareProfile read_hardware(const HostSource& host = {}, const GpuSource& gpu = {});

// Returns the profile as JSON: bytes are integers; unknown values are null.
nlohmann::ordered_json to_json(const HardwareProfile& profile);

}  // namespace sotto::device
