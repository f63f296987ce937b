// Ranges of addresses: of memory from the operating system, and of nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sotto::device {

// Host memory, taken page by page when touched. Throws OutOfMemory where the system refuses the
// range.
std::byte* map_memory(int64_t bytes);
void unmap_memory(std::byte* base, int64_t bytes);

// The first of 2^44 addresses that no memory has and no other call returns: names for the blocks of
// a dry run.
std::byte* addresses_of_nothing();

}  // namespace sotto::device
