// Replaces cuda_device_cuda.cpp in builds without CUDA.
#include "sotto/core/error.h"
#include "sotto/device/cuda_device.h"

namespace sotto::device {

namespace {

[[noreturn]] void throw_not_built() {
  throw ConfigError({.attempted = "using a GPU",
                     .found = "this build of sotto has no CUDA",
                     .expected = "a build with SOTTO_CUDA=ON",
                     .hint = "Configure with -DSOTTO_CUDA=ON, or use --device cpu."});
}

}  // namespace

void* current_cuda_stream() {
  throw_not_built();
}

CudaDevice read_cuda_device() {
  throw_not_built();
}

CudaDevice select_cuda_device(int /*index*/) {
  throw_not_built();
}

CudaMemory read_cuda_memory() {
  throw_not_built();
}

void synchronize_cuda() {
  throw_not_built();
}

std::byte* allocate_cuda(int64_t /*bytes*/) {
  throw_not_built();
}

void free_cuda(std::byte* /*address*/) noexcept {}

std::byte* allocate_pinned(int64_t /*bytes*/) {
  throw_not_built();
}

void free_pinned(std::byte* /*address*/) noexcept {}

CudaEvent::CudaEvent() {
  throw_not_built();
}

CudaEvent::~CudaEvent() = default;

void CudaEvent::record(void* /*stream*/) {
  throw_not_built();
}

void CudaEvent::wait() {
  throw_not_built();
}

void CudaEvent::hold(void* /*stream*/) {
  throw_not_built();
}

CudaStream::CudaStream() {
  throw_not_built();
}

CudaStream::~CudaStream() = default;

void CudaStream::copy(void* /*to*/, const void* /*from*/, int64_t /*bytes*/) {
  throw_not_built();
}

void CudaStream::wait() {
  throw_not_built();
}

void install_cuda_allocator(ArenaSet& /*arenas*/) {
  throw_not_built();
}

}  // namespace sotto::device
