// The machine as sotto sees it: host and GPUs in one plain struct, and the same as JSON. What
// `sotto profile` prints and what a plan is made for.
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

// Bytes are whole numbers; what is not known is null.
nlohmann::ordered_json to_json(const HardwareProfile& profile);

}  // namespace sotto::device
