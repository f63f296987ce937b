// `sotto profile --calibrate`: how fast a device is, measured and kept for plans.
#pragma once

#include <string>

namespace sotto::cli {

// Throws ConfigError where there is no such device.
void calibrate(const std::string& device, bool json);

}  // namespace sotto::cli
