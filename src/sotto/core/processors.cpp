#include "sotto/core/processors.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sotto/core/cgroup.h"

namespace sotto {

int64_t count_scheduled_cores() {
  // One cpu_set_t holds 1024 cores and the call fails on larger machines; the limit of Linux is
  // 8192.
  std::array<cpu_set_t, 8> cores = {};
  if (sched_getaffinity(0, sizeof(cores), cores.data()) != 0) return 1;
  return std::max(1, CPU_COUNT_S(sizeof(cores), cores.data()));
}

int64_t usable_cores(int64_t scheduled, const std::optional<double>& quota_cores) {
  if (!quota_cores) return scheduled;
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(*quota_cores)), 1, scheduled);
}

int64_t num_threads() {
  static const int64_t number =
      usable_cores(count_scheduled_cores(), read_cgroup_limits("/").cpu_quota_cores);
  return number;
}

}  // namespace sotto
