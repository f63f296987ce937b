#include "sotto/device/address_range.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto::device {

std::byte* map_memory(int64_t bytes) {
  void* base = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw OutOfMemory(
        {.attempted = fmt::format("reserving {} of address space", format_bytes(bytes)),
         .found = std::strerror(errno),
         .expected = "the system to allow it",
         .hint = "A limit on address space (ulimit -v) must be above the budget."});
  }
  // Huge pages avoid most of the page faults of a first step; ignored if the system has none.
  madvise(base, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return static_cast<std::byte*>(base);
}

void unmap_memory(std::byte* base, int64_t bytes) {
  munmap(base, static_cast<size_t>(bytes));
}

std::byte* addresses_of_nothing() {
  // Above the address space of any process, 16 TiB for each dry arena. The counter is the only
  // state that dry runs share.
  static std::atomic<uint64_t> count{0};
  constexpr uint64_t kFirst = uint64_t{1} << 60;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the number is a name, never followed
  return reinterpret_cast<std::byte*>(kFirst + (count++ << 44));
}

}  // namespace sotto::device
