// Work that falls into independent pieces, on all cores.
#pragma once

#include <cstdint>
#include <functional>

namespace sotto {

// Calls `work` for 0 .. count - 1, each once, from up to `num_threads` threads (0: as many as
// processors.h says) in rising order of their beginnings. Returns when all have ended. Where calls
// throw, no further ones begin, and the exception of the lowest number is thrown here.
void parallel_for(int64_t count, const std::function<void(int64_t)>& work, int64_t num_threads = 0);

}  // namespace sotto
