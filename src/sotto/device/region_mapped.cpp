#include "sotto/device/address_range.h"
#include "sotto/device/region.h"

namespace sotto::device {

Region::Region(RegionKind kind, int64_t bytes)
    : kind_(kind),
      bytes_(bytes),
      base_(kind == RegionKind::kHost ? map_memory(bytes) : addresses_of_nothing()) {}

Region::~Region() {
  if (kind_ == RegionKind::kHost) unmap_memory(base_, bytes_);
}

void* Region::take(int64_t offset, int64_t /*bytes*/) {
  return base_ + offset;
}

void Region::give_back(void* /*address*/) {}

}  // namespace sotto::device
