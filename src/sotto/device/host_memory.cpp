#include "sotto/device/host_memory.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/device/cuda_device.h"

namespace sotto::device {

namespace {

// One page: sufficient for the widest vectors and for copies of a GPU.
constexpr size_t kAlignment = 4096;

std::byte* allocate_ordinary(int64_t bytes) {
  void* address = nullptr;
  if (posix_memalign(&address, kAlignment, static_cast<size_t>(bytes)) == 0)
    return static_cast<std::byte*>(address);
  throw OutOfMemory({.attempted = fmt::format("allocating {} of host memory", format_bytes(bytes)),
                     .found = "the machine has no more memory",
                     .hint = "End other programs, or keep more on the device."});
}

}  // namespace

HostBlock::HostBlock(HostBlock&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

HostBlock& HostBlock::operator=(HostBlock&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void HostBlock::reset() noexcept {
  if (memory_ != nullptr) memory_->free(data_, bytes_);
  memory_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

HostBlock HostMemory::allocate(int64_t bytes, std::string_view purpose) {
  if (used_bytes_ + bytes > budget_bytes_) {
    throw OutOfMemory(
        {.attempted = fmt::format("allocating {} of host memory {}", format_bytes(bytes), purpose),
         .found = fmt::format("{} would then be in use", format_bytes(used_bytes_ + bytes)),
         .expected = fmt::format("at most {}", format_bytes(budget_bytes_)),
         .hint = "Raise --host-memory."});
  }
  std::byte* data = nullptr;
  if (device_ == c10::kCUDA) data = allocate_pinned(bytes);
  if (device_ == c10::kCPU) data = allocate_ordinary(bytes);
  used_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return {*this, data, bytes};
}

void HostMemory::free(std::byte* data, int64_t bytes) noexcept {
  used_bytes_ -= bytes;
  if (data == nullptr) return;
  if (device_ == c10::kCUDA) {
    free_pinned(data);
  } else {
    std::free(data);
  }
}

}  // namespace sotto::device
