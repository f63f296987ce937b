#include "sotto/device/address_range.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/region.h"

namespace sotto::device {

namespace {

std::byte* base_of(RegionKind kind, int64_t bytes) {
  switch (kind) {
    case RegionKind::kNothing: return addresses_of_nothing();
    case RegionKind::kHost: return map_memory(bytes);
    case RegionKind::kCuda: return allocate_cuda(bytes);
  }
  return nullptr;
}

}  // namespace

Region::Region(RegionKind kind, int64_t bytes)
    : kind_(kind), bytes_(bytes), base_(base_of(kind, bytes)) {}

Region::~Region() {
  if (kind_ == RegionKind::kHost) unmap_memory(base_, bytes_);
  if (kind_ == RegionKind::kCuda) free_cuda(base_);
}

void* Region::take(int64_t offset, int64_t /*bytes*/) {
  return base_ + offset;
}

void Region::give_back(void* /*address*/) {}

}  // namespace sotto::device
