#include "sotto/device/staging_buffer.h"

namespace sotto::device {

namespace {

// Granularity of reallocation when a buffer is too small: rare, since the limits bound the sizes.
constexpr int64_t kStep = int64_t{4} << 20;

}  // namespace

StagingBuffer::~StagingBuffer() {
  release();
}

int64_t StagingBuffer::release() {
  const int64_t bytes = reserved_bytes();
  for (Place& place : places_) {
    if (place.last_copy) place.last_copy->wait();
    place.block.reset();
  }
  return bytes;
}

std::byte* StagingBuffer::take(int64_t bytes) {
  now_ = 1 - now_;
  Place& place = places_[now_];
  if (place.last_copy) place.last_copy->wait();
  if (place.block.bytes() < bytes) {
    place.block.reset();
    place.block = memory_.allocate((bytes + kStep - 1) / kStep * kStep, "to copy to the GPU from");
  }
  return place.block.data();
}

void StagingBuffer::launched() {
  Place& place = places_[now_];
  if (!place.last_copy) place.last_copy = std::make_unique<CudaEvent>();
  place.last_copy->record();
}

int64_t StagingBuffer::reserved_bytes() const {
  return places_[0].block.bytes() + places_[1].block.bytes();
}

}  // namespace sotto::device
