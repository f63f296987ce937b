#include "sotto/device/staging_buffer.h"

#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto::device {

namespace {

// What is taken anew when a place is too small: rarely, since limits bound what comes.
constexpr int64_t kStep = int64_t{4} << 20;

}  // namespace

StagingBuffer::~StagingBuffer() {
  for (Place& place : places_) {
    if (place.last_copy) place.last_copy->wait();
    if (place.data != nullptr) free_pinned(place.data);
  }
}

std::byte* StagingBuffer::take(int64_t bytes) {
  now_ = 1 - now_;
  Place& place = places_[now_];
  if (place.last_copy) place.last_copy->wait();
  if (place.bytes >= bytes) return place.data;

  const int64_t wanted = (bytes + kStep - 1) / kStep * kStep;
  const int64_t total = reserved_bytes() - place.bytes + wanted;
  if (total > budget_bytes_) {
    throw OutOfMemory({.attempted = fmt::format("taking {} of page-locked host memory to copy to "
                                                "the GPU from",
                                                format_bytes(wanted)),
                       .found = fmt::format("{} would then be taken", format_bytes(total)),
                       .expected = fmt::format("at most {}", format_bytes(budget_bytes_)),
                       .hint = "Give more with --host-memory."});
  }
  if (place.data != nullptr) free_pinned(place.data);
  place.data = nullptr;
  place.bytes = 0;
  place.data = allocate_pinned(wanted);
  place.bytes = wanted;
  return place.data;
}

void StagingBuffer::launched() {
  Place& place = places_[now_];
  if (!place.last_copy) place.last_copy = std::make_unique<CudaEvent>();
  place.last_copy->record();
}

int64_t StagingBuffer::reserved_bytes() const {
  return places_[0].bytes + places_[1].bytes;
}

}  // namespace sotto::device
