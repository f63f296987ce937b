// `sotto profile --calibrate`: measures the speed of a device and caches it for plans.
#pragma once

#include <string>

namespace sotto::cli {

// Throws ConfigError where there is no such device.
void calibrate(const std::string& device, bool json);

}  // namespace sotto::cli
