// What both forms of host memory share: blocks beside the region.
#include "sotto/device/region.h"

#include <cstdlib>

#include "sotto/core/error.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/placement.h"

namespace sotto::device {

void* Region::take_outside(int64_t bytes) {
  if (kind_ == RegionKind::kCuda) return allocate_cuda(bytes);
  // Of nothing, an address is wanted.
  const int64_t needed = kind_ == RegionKind::kNothing ? Placement::kAlignment : bytes;
  void* address = std::aligned_alloc(Placement::kAlignment, static_cast<size_t>(needed));
  SOTTO_ASSERT(address != nullptr, "the system gave no {} bytes", needed);
  return address;
}

void Region::give_back_outside(void* address) {
  if (kind_ == RegionKind::kCuda) {
    free_cuda(static_cast<std::byte*>(address));
  } else {
    std::free(address);
  }
}

}  // namespace sotto::device
