// The NVIDIA GPUs of the machine and the processes that use their memory, queried from the driver's
// management library (NVML). The library is loaded at run time: sotto builds and runs without it.
// Nothing here throws: unknown values are absent, and failures are reported as notes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sotto::device {

struct ComputeCapability {
  int major = 0;
  int minor = 0;

  friend bool operator==(const ComputeCapability&, const ComputeCapability&) = default;
};

struct GpuMemory {
  int64_t total_bytes = 0;
  // Memory used by all processes and the driver.
  int64_t used_bytes = 0;
  int64_t free_bytes = 0;
};

struct GpuProcess {
  int64_t pid = 0;
  // Empty if it is not visible, as from inside a container.
  std::string name = {};
  // std::nullopt if the driver does not report it.
  std::optional<int64_t> used_bytes = {};
};

struct GpuInfo {
  // NVML's index: in bus order, independent of CUDA_VISIBLE_DEVICES.
  int64_t index = 0;
  std::string name = {};
  std::string uuid = {};
  std::optional<ComputeCapability> capability = {};
  std::optional<int64_t> num_sms = {};
  std::optional<GpuMemory> memory = {};
  std::vector<GpuProcess> processes = {};
};

struct GpuProfile {
  // Empty if the driver does not report it.
  std::string driver_version = {};
  // Highest CUDA version supported by the driver: "13.0".
  std::string cuda_version = {};
  std::vector<GpuInfo> gpus = {};
  // Failures, one sentence each; the reason if there is no GPU.
  std::vector<std::string> notes = {};
};

struct GpuSource {
  std::string library = "libnvidia-ml.so.1";
  // Contains proc/PID/comm, the names of processes.
  std::filesystem::path root = "/";
};

GpuProfile read_gpus(const GpuSource& source = {});

// Returns the number of cores of one streaming multiprocessor; std::nullopt for an unknown
// capability.
std::optional<int64_t> cores_per_sm(ComputeCapability capability);

}  // namespace sotto::device
