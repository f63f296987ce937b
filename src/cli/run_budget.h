// The budget of a command in bytes, on this machine.
#pragma once

#include <cstdint>

#include "sotto/core/units.h"

namespace sotto::cli {

// Throws ConfigError where it is more than is free.
int64_t host_budget(const MemorySize& memory);

}  // namespace sotto::cli
