// How many threads this process should run at once.
#pragma once

#include <cstdint>
#include <optional>

namespace sotto {

// Cores the scheduler may put this process on.
int64_t count_scheduled_cores();

// Those of them that it can keep busy. `quota_cores`: CPU time of its control group, in cores.
int64_t usable_cores(int64_t scheduled, const std::optional<double>& quota_cores);

// The usable cores of this process. Read once.
int64_t num_threads();

}  // namespace sotto
