#include "sotto/device/address_range.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto::device {

std::byte* map_range(int64_t bytes, Backing backing) {
  const int protection = backing == Backing::kMemory ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* base = mmap(nullptr, static_cast<size_t>(bytes), protection,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw OutOfMemory({.attempted = fmt::format("reserving {} of addresses", format_bytes(bytes)),
                       .found = std::strerror(errno),
                       .expected = "the system to grant them",
                       .hint = "A limit on address space (ulimit -v) must be above the budget."});
  }
  // Huge pages save most of the page faults of a first step; where the system has none, nothing is
  // lost.
  if (backing == Backing::kMemory) madvise(base, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return static_cast<std::byte*>(base);
}

void unmap_range(std::byte* base, int64_t bytes) {
  munmap(base, static_cast<size_t>(bytes));
}

}  // namespace sotto::device
