// Code shared by both implementations of host memory: blocks outside of the region.
#include "sotto/device/region.h"

#include <cstdlib>

#include "sotto/core/error.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/placement.h"

namespace sotto::device {

void* Region::take_outside(int64_t bytes) {
  if (kind_ == RegionKind::kCuda) return allocate_cuda(bytes);
  // A region without memory only needs a unique address.
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
