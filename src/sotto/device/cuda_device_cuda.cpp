#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/device/arena_set.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/cuda_requirements.h"

namespace sotto::device {

namespace {

constexpr int kOldestCuda = 13000;

[[noreturn]] void refuse(std::string found, std::string expected, std::string hint) {
  throw ConfigError({.attempted = "using a GPU",
                     .found = std::move(found),
                     .expected = std::move(expected),
                     .hint = std::move(hint)});
}

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not return it again
  throw InternalError({.attempted = what, .found = cudaGetErrorString(code)});
}

[[noreturn]] void throw_refused(int64_t bytes, const char* kind, cudaError_t code) {
  cudaGetLastError();
  throw OutOfMemory({.attempted = fmt::format("allocating {} of {}", format_bytes(bytes), kind),
                     .found = cudaGetErrorString(code),
                     .expected = "the driver to allow it",
                     .hint = "Another program may use the rest: sotto profile shows which. Or "
                             "lower --memory."});
}

// Returns the number of GPUs, at least one.
int check_driver() {
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "reading the driver's version");
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (driver == 0 || counted == cudaErrorNoDevice || (counted == cudaSuccess && count == 0)) {
    cudaGetLastError();
    refuse("no NVIDIA GPU, or no driver for it", "a GPU", "Use --device cpu.");
  }
  if (driver < kOldestCuda || counted == cudaErrorInsufficientDriver) {
    cudaGetLastError();
    refuse(fmt::format("a driver for CUDA {}.{}", driver / 1000, driver % 1000 / 10),
           fmt::format("a driver of version {} or later, for CUDA 13.0", kOldestDriver),
           "Install a newer NVIDIA driver, or use --device cpu.");
  }
  check(counted, "counting GPUs");
  return count;
}

// Formats a UUID in NVML's notation.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

CudaDevice describe(int index) {
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, index), "reading the properties of the GPU");
  const int capability = properties.major * 10 + properties.minor;
  if (capability < kOldestCapability) {
    refuse(fmt::format("{} of compute capability {}.{}", properties.name, properties.major,
                       properties.minor),
           "a capability of 7.5 (Turing: T4, RTX 20) or later", "Use --device cpu.");
  }
  return {.name = properties.name,
          .uuid = uuid_text(properties.uuid),
          .target = {.processor = Processor::kCuda,
                     .capability = capability,
                     .num_sms = properties.multiProcessorCount}};
}

cudaEvent_t as_event(void* event) {
  return static_cast<cudaEvent_t>(event);
}

cudaStream_t as_stream(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

}  // namespace

void* current_cuda_stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

CudaDevice read_cuda_device() {
  check_driver();
  int index = 0;
  check(cudaGetDevice(&index), "reading which GPU is in use");
  return describe(index);
}

CudaDevice select_cuda_device(int index) {
  const int count = check_driver();
  if (index >= count) {
    refuse(fmt::format("cuda:{}", index), fmt::format("cuda:0 to cuda:{}", count - 1),
           "CUDA_VISIBLE_DEVICES may hide others.");
  }
  CudaDevice device = describe(index);
  check(cudaSetDevice(index), "choosing a GPU");
  return device;
}

CudaMemory read_cuda_memory() {
  size_t free = 0;
  size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "reading the GPU's memory");
  return {.total_bytes = static_cast<int64_t>(total), .free_bytes = static_cast<int64_t>(free)};
}

void synchronize_cuda() {
  check(cudaDeviceSynchronize(), "waiting for the GPU");
}

std::byte* allocate_cuda(int64_t bytes) {
  void* address = nullptr;
  const cudaError_t code = cudaMalloc(&address, static_cast<size_t>(bytes));
  if (code != cudaSuccess) throw_refused(bytes, "GPU memory", code);
  return static_cast<std::byte*>(address);
}

void free_cuda(std::byte* address) noexcept {
  // At process exit the driver may already be unloaded, together with the memory.
  cudaFree(address);
}

std::byte* allocate_pinned(int64_t bytes) {
  void* address = nullptr;
  const cudaError_t code =
      cudaHostAlloc(&address, static_cast<size_t>(bytes), cudaHostAllocDefault);
  if (code != cudaSuccess) throw_refused(bytes, "page-locked host memory", code);
  return static_cast<std::byte*>(address);
}

void free_pinned(std::byte* address) noexcept {
  cudaFreeHost(address);
}

CudaEvent::CudaEvent() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  event_ = event;
}

CudaEvent::~CudaEvent() {
  cudaEventDestroy(as_event(event_));
}

void CudaEvent::record(void* stream) {
  check(cudaEventRecord(as_event(event_), as_stream(stream)), "recording an event");
}

void CudaEvent::wait() {
  check(cudaEventSynchronize(as_event(event_)), "waiting for an event");
}

void CudaEvent::hold(void* stream) {
  check(cudaStreamWaitEvent(as_stream(stream), as_event(event_)), "ordering two streams");
}

CudaStream::CudaStream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  stream_ = stream;
}

CudaStream::~CudaStream() {
  cudaStreamSynchronize(as_stream(stream_));
  cudaStreamDestroy(as_stream(stream_));
}

void CudaStream::copy(void* to, const void* from, int64_t bytes) {
  check(
      cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, as_stream(stream_)),
      "copying between the host and the GPU");
}

void CudaStream::wait() {
  check(cudaStreamSynchronize(as_stream(stream_)), "waiting for copies");
}

void install_cuda_allocator(ArenaSet& arenas) {
  namespace pluggable = torch::cuda::CUDAPluggableAllocator;
  const auto allocate = [&arenas](size_t bytes, int /*device*/, cudaStream_t) -> void* {
    if (bytes == 0) return nullptr;
    const auto size = static_cast<int64_t>(bytes);
    if (const std::shared_ptr<Arena> arena = arenas.current()) return arena->allocate(size);
    return allocate_cuda(size);
  };
  const auto release = [&arenas](void* address, size_t /*bytes*/, int /*device*/, cudaStream_t) {
    if (address != nullptr && !arenas.free(address)) free_cuda(static_cast<std::byte*>(address));
  };
  pluggable::changeCurrentAllocator(pluggable::createCustomAllocator(allocate, release));
}

}  // namespace sotto::device
