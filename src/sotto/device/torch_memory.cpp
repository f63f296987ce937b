#include "sotto/device/torch_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "sotto/core/error.h"

namespace sotto::device {

namespace {

// Higher than LibTorch gives its own allocators, so that ours replaces them.
constexpr uint8_t kPriority = 100;

void free_host(void* address);
void free_nothing(void* address);

// LibTorch's allocator of one device type: the arena of the guard in force, else the one LibTorch
// had.
class TorchAllocator final : public c10::Allocator {
 public:
  TorchAllocator(c10::DeviceType device, c10::DeleterFnPtr deleter)
      : device_(device), deleter_(deleter), original_(c10::GetAllocator(device)) {}

  c10::DataPtr allocate(size_t bytes) override {
    const std::shared_ptr<Arena> arena = current();
    if (!arena) return allocate_original(bytes);
    if (bytes == 0) return {nullptr, nullptr, deleter_, device_};
    void* block = arena->allocate(static_cast<int64_t>(bytes));
    // A Meta tensor has no data; the block's address only identifies it. On the CPU data and
    // context must be equal, or oneDNN's paths fail.
    return {device_ == c10::kMeta ? nullptr : block, block, deleter_, device_};
  }

  c10::DeleterFnPtr raw_deleter() const override { return deleter_; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  void free(void* address) {
    if (address == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto owner =
        std::find_if(arenas_.begin(), arenas_.end(),
                     [&](const std::shared_ptr<Arena>& arena) { return arena->free(address); });
    if (owner == arenas_.end()) {
      SOTTO_ASSERT(device_ == c10::kCPU, "a Meta block of no arena");
      original_->raw_deleter()(address);
    } else if (*owner != current_ && (*owner)->num_blocks() == 0) {
      arenas_.erase(owner);  // the last tensor that outlived its guard is gone
    }
  }

  std::shared_ptr<Arena> current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }

  // Makes `arena` the one in force and returns the one before it.
  std::shared_ptr<Arena> exchange(std::shared_ptr<Arena> arena) {
    const std::lock_guard lock(mutex_);
    const bool known = std::find(arenas_.begin(), arenas_.end(), arena) != arenas_.end();
    if (arena && !known) arenas_.push_back(arena);
    std::swap(current_, arena);
    const bool idle = arena && arena != current_ && arena->num_blocks() == 0;
    if (idle) std::erase(arenas_, arena);
    return arena;
  }

 private:
  c10::DataPtr allocate_original(size_t bytes) {
    if (device_ == c10::kMeta) return original_->allocate(bytes);
    // Through raw_allocate, so that one deleter frees both kinds.
    void* block = bytes == 0 ? nullptr : original_->raw_allocate(bytes);
    return {block, block, deleter_, device_};
  }

  c10::DeviceType device_;
  c10::DeleterFnPtr deleter_;
  c10::Allocator* original_;
  mutable std::mutex mutex_;
  std::shared_ptr<Arena> current_;
  // Every arena that still has blocks, the current one too.
  std::vector<std::shared_ptr<Arena>> arenas_;
};

// Installed once and never destroyed: LibTorch keeps the pointer, and tensors in static storage die
// after main.
TorchAllocator& allocator_of(c10::DeviceType device) {
  static TorchAllocator* const host = [] {
    auto* allocator = new TorchAllocator(c10::kCPU, &free_host);
    c10::SetCPUAllocator(allocator, kPriority);
    return allocator;
  }();
  static TorchAllocator* const nothing = [] {
    auto* allocator = new TorchAllocator(c10::kMeta, &free_nothing);
    c10::SetAllocator(c10::kMeta, allocator, kPriority);
    return allocator;
  }();
  SOTTO_ASSERT(device == c10::kCPU || device == c10::kMeta, "no arena on {}",
               c10::DeviceTypeName(device));
  return device == c10::kCPU ? *host : *nothing;
}

void free_host(void* address) {
  allocator_of(c10::kCPU).free(address);
}

void free_nothing(void* address) {
  allocator_of(c10::kMeta).free(address);
}

}  // namespace

ArenaGuard::ArenaGuard(c10::DeviceType device, std::shared_ptr<Arena> arena)
    : device_(device), outer_(allocator_of(device).exchange(std::move(arena))) {}

ArenaGuard::~ArenaGuard() {
  allocator_of(device_).exchange(std::move(outer_));
}

LibraryCall::LibraryCall(std::string_view name, c10::DeviceType device, int64_t bound_bytes) {
  // Other devices (CUDA) keep LibTorch's allocator so far.
  if (device != c10::kCPU && device != c10::kMeta) return;
  arena_ = allocator_of(device).current();
  if (arena_) arena_->begin_library_call(name, bound_bytes);
}

LibraryCall::~LibraryCall() {
  if (arena_) arena_->end_library_call();
}

}  // namespace sotto::device
