#include "sotto/device/torch_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <string_view>

#include "sotto/core/error.h"
#include "sotto/device/arena_set.h"
#include "sotto/device/cuda_device.h"

namespace sotto::device {

namespace {

// Higher than the priority of LibTorch's own allocators, so that ours replaces them.
constexpr uint8_t kPriority = 100;

void free_host(void* address);
void free_nothing(void* address);

// LibTorch's allocator of one device type: uses the arena of the active guard, or LibTorch's
// original allocator if there is none.
class TorchAllocator final : public c10::Allocator {
 public:
  TorchAllocator(c10::DeviceType device, c10::DeleterFnPtr deleter)
      : device_(device), deleter_(deleter), original_(c10::GetAllocator(device)) {}

  c10::DataPtr allocate(size_t bytes) override {
    const std::shared_ptr<Arena> arena = arenas_.current();
    if (!arena) return allocate_original(bytes);
    if (bytes == 0) return {nullptr, nullptr, deleter_, device_};
    void* block = arena->allocate(static_cast<int64_t>(bytes));
    // A Meta tensor has no data; the block's address only identifies it. On the CPU data and
    // context must be equal, or oneDNN's code paths fail.
    return {device_ == c10::kMeta ? nullptr : block, block, deleter_, device_};
  }

  c10::DeleterFnPtr raw_deleter() const override { return deleter_; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  void free(void* address) {
    if (address == nullptr || arenas_.free(address)) return;
    SOTTO_ASSERT(device_ == c10::kCPU, "a Meta block of no arena");
    original_->raw_deleter()(address);
  }

  ArenaSet& arenas() { return arenas_; }

 private:
  c10::DataPtr allocate_original(size_t bytes) {
    if (device_ == c10::kMeta) return original_->allocate(bytes);
    // Uses raw_allocate, so that one deleter frees both kinds.
    void* block = bytes == 0 ? nullptr : original_->raw_allocate(bytes);
    return {block, block, deleter_, device_};
  }

  c10::DeviceType device_;
  c10::DeleterFnPtr deleter_;
  c10::Allocator* original_;
  ArenaSet arenas_;
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
  return device == c10::kCPU ? *host : *nothing;
}

// The CUDA side uses LibTorch's interface for pluggable allocators. Null until prepared.
ArenaSet* cuda_arenas = nullptr;

// Returns null if LibTorch's own allocator is in place.
ArenaSet* arenas_of(c10::DeviceType device) {
  const bool is_known = device == c10::kCPU || device == c10::kMeta || device == c10::kCUDA;
  SOTTO_ASSERT(is_known, "no arena on {}", c10::DeviceTypeName(device));
  return device == c10::kCUDA ? cuda_arenas : &allocator_of(device).arenas();
}

void free_host(void* address) {
  allocator_of(c10::kCPU).free(address);
}

void free_nothing(void* address) {
  allocator_of(c10::kMeta).free(address);
}

}  // namespace

void prepare_cuda_memory() {
  if (cuda_arenas != nullptr) return;
  // Never destroyed: LibTorch keeps references to it.
  auto* arenas = new ArenaSet;
  install_cuda_allocator(*arenas);
  cuda_arenas = arenas;
}

ArenaGuard::ArenaGuard(c10::DeviceType device, std::shared_ptr<Arena> arena) : device_(device) {
  if (device == c10::kCUDA) prepare_cuda_memory();
  outer_ = arenas_of(device)->exchange(std::move(arena));
}

ArenaGuard::~ArenaGuard() {
  arenas_of(device_)->exchange(std::move(outer_));
}

int64_t live_bytes(c10::DeviceType device) {
  ArenaSet* const arenas = arenas_of(device);
  const std::shared_ptr<Arena> arena = arenas == nullptr ? nullptr : arenas->current();
  return arena ? arena->live_bytes() : 0;
}

LibraryCall::LibraryCall(std::string_view name, c10::DeviceType device, int64_t bound_bytes,
                         std::span<const int64_t> results) {
  if (ArenaSet* arenas = arenas_of(device)) arena_ = arenas->current();
  if (arena_) arena_->begin_library_call(name, bound_bytes, results);
}

LibraryCall::~LibraryCall() {
  if (arena_) arena_->end_library_call();
}

}  // namespace sotto::device
