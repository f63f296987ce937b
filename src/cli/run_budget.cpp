#include "run_budget.h"

#include "sotto/device/budget.h"
#include "sotto/device/host_info.h"

namespace sotto::cli {

int64_t host_budget(const MemorySize& memory) {
  const device::HostInfo host = device::read_host();
  return device::resolve_budget(memory,
                                {.total_bytes = host.total_bytes, .free_bytes = host.free_bytes},
                                "this machine's RAM");
}

}  // namespace sotto::cli
