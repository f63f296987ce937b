// Number of threads that this process should run at once.
#pragma once

#include <cstdint>
#include <optional>

namespace sotto {

// Returns the number of cores on which the scheduler may run this process.
int64_t count_scheduled_cores();

// Returns the number of scheduled cores that this process can keep busy. `quota_cores`: CPU time of
// its control group, in cores.
int64_t usable_cores(int64_t scheduled, const std::optional<double>& quota_cores);

// Returns the number of usable cores of this process. The value is read once.
int64_t num_threads();

}  // namespace sotto
