// Checks whether this CPU has the instructions that the kernels were compiled for. Without the
// check an older CPU would end the program with an illegal instruction and no message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sotto::device {

// Throws ConfigError, which names the missing features, where a CPU with `features` (as in
// /proc/cpuinfo) cannot run code for `cpu_level` (as in build_info()). An empty list of features
// means that nothing is known about the CPU and passes.
void check_cpu_level(std::string_view cpu_level, const std::vector<std::string>& features);

}  // namespace sotto::device
