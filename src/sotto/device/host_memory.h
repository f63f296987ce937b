// Host memory of a run in addition to its device memory: page-locked for a GPU, so that copies run
// concurrently with its work; ordinary for the CPU; only counted in a dry run. It has its own
// budget (--host-memory) and is not part of any arena.
#pragma once

#include <c10/core/DeviceType.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sotto::device {

class HostMemory;

// A block of host memory, freed by the destructor. The HostMemory must outlive it.
class HostBlock {
 public:
  HostBlock() = default;
  ~HostBlock() { reset(); }
  HostBlock(HostBlock&& other) noexcept;
  HostBlock& operator=(HostBlock&& other) noexcept;

  // Null in a dry run.
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  void reset() noexcept;

 private:
  friend class HostMemory;
  HostBlock(HostMemory& memory, std::byte* data, int64_t bytes)
      : memory_(&memory), data_(data), bytes_(bytes) {}

  HostMemory* memory_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

class HostMemory {
 public:
  static constexpr int64_t kUnlimited = int64_t{1} << 44;

  // Creates the host memory of a run on that device; Meta means a dry run.
  explicit HostMemory(c10::DeviceType device, int64_t budget_bytes = kUnlimited)
      : device_(device), budget_bytes_(budget_bytes) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Allocates a block. Throws OutOfMemory beyond the budget, or where the machine has no more
  // memory. `purpose` ends the sentence "taking 4 MiB of host memory ...".
  HostBlock allocate(int64_t bytes, std::string_view purpose);

  c10::DeviceType device() const { return device_; }
  int64_t used_bytes() const { return used_bytes_; }
  // Peak of allocated bytes since the last reset.
  int64_t peak_bytes() const { return peak_bytes_; }
  void reset_peak() { peak_bytes_ = used_bytes_; }

 private:
  friend class HostBlock;
  void free(std::byte* data, int64_t bytes) noexcept;

  c10::DeviceType device_;
  int64_t budget_bytes_;
  int64_t used_bytes_ = 0;
  int64_t peak_bytes_ = 0;
};

}  // namespace sotto::device
