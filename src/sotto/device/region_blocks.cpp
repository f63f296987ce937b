// Implementation for sanitizer builds: each host block is a separate allocation of exactly the
// requested bytes.
#include <cstdlib>

#include "sotto/core/error.h"
#include "sotto/device/address_range.h"
#include "sotto/device/placement.h"
#include "sotto/device/region.h"

namespace sotto::device {

Region::Region(RegionKind kind, int64_t bytes) : kind_(kind), bytes_(bytes) {
  SOTTO_ASSERT(kind != RegionKind::kCuda, "sanitizer builds have no CUDA");
  if (kind == RegionKind::kNothing) base_ = addresses_of_nothing();
}

Region::~Region() = default;

void* Region::take(int64_t offset, int64_t bytes) {
  if (kind_ == RegionKind::kNothing) return base_ + offset;
  void* address = nullptr;
  const int code = posix_memalign(&address, Placement::kAlignment, static_cast<size_t>(bytes));
  SOTTO_ASSERT(code == 0, "posix_memalign of {} bytes gave {}", bytes, code);
  return address;
}

void Region::give_back(void* address) {
  if (kind_ == RegionKind::kHost) std::free(address);
}

}  // namespace sotto::device
