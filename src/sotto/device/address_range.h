// Address ranges: host memory from the operating system, and ranges without memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sotto::device {

// Maps host memory, which is committed page by page on first access. Throws OutOfMemory where the
// system refuses the range.
std::byte* map_memory(int64_t bytes);
void unmap_memory(std::byte* base, int64_t bytes);

// Returns the first of 2^44 addresses that are not backed by memory and that no other call returns:
// identifiers for the blocks of a dry run.
std::byte* addresses_of_nothing();

}  // namespace sotto::device
