// A range of addresses from the operating system, with or without memory behind it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sotto::device {

enum class Backing { kMemory, kNone };

// Throws OutOfMemory where the system refuses. Memory is taken page by page when touched.
std::byte* map_range(int64_t bytes, Backing backing);
void unmap_range(std::byte* base, int64_t bytes);

}  // namespace sotto::device
