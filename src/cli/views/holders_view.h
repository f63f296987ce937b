// Who holds the memory of GPUs, as a table.
#pragma once

#include <string>
#include <vector>

#include "sotto/device/gpu_info.h"

namespace sotto::cli {

// Lists the processes that hold memory, and the remainder; begins with an empty line. Empty where
// no memory is held.
std::string holders_table(const std::vector<device::GpuInfo>& gpus);

}  // namespace sotto::cli
