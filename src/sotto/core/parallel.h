// Runs independent pieces of work on all cores.
#pragma once

#include <cstdint>
#include <functional>

namespace sotto {

// Calls `work` once for each of 0 .. count - 1, from up to `num_threads` threads (0: the count of
// processors.h), started in ascending order. Returns when all calls have ended. After a call
// throws, no further calls start, and the exception of the lowest index is rethrown here.
void parallel_for(int64_t count, const std::function<void(int64_t)>& work, int64_t num_threads = 0);

}  // namespace sotto
