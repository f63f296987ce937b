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
  for (Buffer& buffer : buffers_) {
    if (buffer.last_copy) buffer.last_copy->wait();
    buffer.block.reset();
  }
  return bytes;
}

std::byte* StagingBuffer::take(int64_t bytes) {
  now_ = 1 - now_;
  Buffer& buffer = buffers_[now_];
  if (buffer.last_copy) buffer.last_copy->wait();
  if (buffer.block.bytes() < bytes) {
    buffer.block.reset();
    buffer.block = memory_.allocate((bytes + kStep - 1) / kStep * kStep, "to copy to the GPU from");
  }
  return buffer.block.data();
}

void StagingBuffer::launched() {
  Buffer& buffer = buffers_[now_];
  if (!buffer.last_copy) buffer.last_copy = std::make_unique<CudaEvent>();
  buffer.last_copy->record();
}

int64_t StagingBuffer::reserved_bytes() const {
  return buffers_[0].block.bytes() + buffers_[1].block.bytes();
}

}  // namespace sotto::device
