#include "sotto/device/run_device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>

#include "sotto/core/error.h"
#include "sotto/core/processors.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/device_table.h"
#include "sotto/device/gpu_info.h"
#include "sotto/device/gpu_memory_watch.h"
#include "sotto/device/host_info.h"
#include "sotto/device/torch_memory.h"

namespace sotto::device {

namespace {

constexpr std::string_view kCuda = "cuda";

std::optional<int> parse_index(std::string_view text) {
  int index = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (code != std::errc() || end != text.data() + text.size() || index < 0) return std::nullopt;
  return index;
}

// Returns 0 for "cuda", N for "cuda:N"; std::nullopt for other names.
std::optional<int> cuda_index(std::string_view name) {
  if (name == kCuda) return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  return parse_index(name.substr(kCuda.size() + 1));
}

RunDevice open_cpu(std::string_view pretended, bool is_deterministic) {
  if (!pretended.empty()) {
    throw ConfigError({.attempted = fmt::format("pretending to have '{}'", pretended),
                       .found = "a run on the CPU",
                       .expected = "--device cuda: --pretend-device restricts a GPU"});
  }
  const HostInfo host = read_host();
  return {.target = {.is_deterministic = is_deterministic},
          .memory = {.total_bytes = host.total_bytes, .free_bytes = host.free_bytes}};
}

std::optional<GpuInfo> find_gpu(std::string_view uuid, GpuProfile profile = read_gpus()) {
  for (GpuInfo& gpu : profile.gpus) {
    if (gpu.uuid == uuid) return std::move(gpu);
  }
  return std::nullopt;
}

// OpenMP ignores the CPU quota of a control group: more threads than that wait for each other.
void limit_threads() {
  const auto most = static_cast<int>(num_threads());
  if (std::getenv("OMP_NUM_THREADS") == nullptr && at::get_num_threads() > most)
    at::set_num_threads(most);
}

// cuBLAS is bitwise reproducible only with a fixed workspace, which is set by an environment
// variable. ATen would also fill every new tensor, which ours do not need: they are written before
// they are read.
void make_deterministic() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

RunDevice open_cuda(int index, std::string_view pretended, bool is_deterministic) {
  if (is_deterministic) make_deterministic();
  // Selecting a device takes memory on it: who holds the rest is read before.
  GpuProfile before = read_gpus();
  const CudaDevice card = select_cuda_device(index);
  RunDevice device{.torch = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index)),
                   .target = card.target,
                   .name = card.name,
                   .uuid = card.uuid};
  const std::optional<GpuInfo> gpu = find_gpu(card.uuid);
  if (gpu && gpu->memory) {
    device.memory = {.total_bytes = gpu->memory->total_bytes,
                     .free_bytes = gpu->memory->free_bytes};
    device.used_before_bytes = gpu->memory->used_bytes;
  } else {
    const CudaMemory memory = read_cuda_memory();
    device.memory = {.total_bytes = memory.total_bytes, .free_bytes = memory.free_bytes};
    device.used_before_bytes = memory.total_bytes - memory.free_bytes;
  }
  if (const std::optional<GpuInfo> idle = find_gpu(card.uuid, std::move(before)))
    device.holders = memory_holders(*idle, getpid());
  if (!pretended.empty()) {
    const KnownDevice& known = find_device(pretended);
    device.target = known.target();
    device.name = fmt::format("{} (pretended on {})", known.name, card.name);
    device.memory = {.total_bytes = known.usable_bytes(),
                     .free_bytes = std::min(known.usable_bytes(), device.memory.free_bytes)};
  }
  device.memory.held_by = describe_holders(device.holders);
  device.target.is_deterministic = is_deterministic;
  prepare_cuda_memory();
  return device;
}

}  // namespace

RunDevice open_device(std::string_view name, std::string_view pretended, bool is_deterministic) {
  limit_threads();
  if (name == "cpu") return open_cpu(pretended, is_deterministic);
  if (const std::optional<int> index = cuda_index(name))
    return open_cuda(*index, pretended, is_deterministic);
  const bool is_known =
      std::ranges::find(known_devices(), name, &KnownDevice::name) != known_devices().end();
  throw ConfigError(
      {.attempted = "choosing the device to run on",
       .found = fmt::format("'{}'", name),
       .expected = "cpu, cuda or cuda:N",
       .hint = is_known ? fmt::format("Only `sotto plan` takes the name of a card. On a machine "
                                      "with this card: --device cuda; with a larger one: "
                                      "--device cuda --pretend-device {}.",
                                      name)
                        : ""});
}

int64_t resolve_host_budget(const MemorySize& budget, const Target& target, bool keeps) {
  const HostInfo host = read_host();
  if (budget.kind == MemorySize::Kind::kAuto)
    return static_cast<int64_t>(kDefaultHostShare * static_cast<double>(host.free_bytes));
  if (!target.is_cuda() && !keeps) {
    throw ConfigError(
        {.attempted =
             fmt::format("taking {} of host memory in addition to the budget", budget.to_string()),
         .found = "a run on the CPU, which offloads nothing",
         .expected = "host_memory: auto, --device cuda, tier: host or optimizer.state: host"});
  }
  return resolve_budget(budget, {.total_bytes = host.total_bytes, .free_bytes = host.free_bytes},
                        "the host", "--host-memory");
}

int64_t used_by_this_process(const RunDevice& device) {
  const std::optional<GpuInfo> gpu = find_gpu(device.uuid);
  if (gpu) {
    for (const GpuProcess& process : gpu->processes) {
      if (process.pid == getpid() && process.used_bytes) return *process.used_bytes;
    }
    // Inside a container process ids differ: the memory added since the start is counted as ours.
    // Not below 0, because another process may have ended since.
    if (gpu->memory)
      return std::max<int64_t>(0, gpu->memory->used_bytes - device.used_before_bytes);
  }
  const CudaMemory memory = read_cuda_memory();
  return std::max<int64_t>(0, memory.total_bytes - memory.free_bytes - device.used_before_bytes);
}

MemoryReading watch_memory(const RunDevice& device) {
  if (!device.target.is_cuda()) return [] { return std::optional(read_host_memory()); };
  // Shared, because std::function is copyable.
  const auto watch = std::make_shared<const GpuMemoryWatch>(device.uuid);
  return [watch]() -> std::optional<MemoryAvailable> {
    const std::optional<GpuMemory> memory = watch->read();
    if (!memory) return std::nullopt;
    return MemoryAvailable{.total_bytes = memory->total_bytes, .free_bytes = memory->free_bytes};
  };
}

}  // namespace sotto::device
