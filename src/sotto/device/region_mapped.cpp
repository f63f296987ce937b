#include "sotto/device/address_range.h"
#include "sotto/device/region.h"

namespace sotto::device {

Region::Region(RegionKind kind, int64_t bytes)
    : kind_(kind),
      bytes_(bytes),
      base_(map_range(bytes, kind == RegionKind::kHost ? Backing::kMemory : Backing::kNone)) {}

Region::~Region() {
  unmap_range(base_, bytes_);
}

void* Region::take(int64_t offset, int64_t /*bytes*/) {
  return base_ + offset;
}

void Region::give_back(void* /*address*/) {}

}  // namespace sotto::device
