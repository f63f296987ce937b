// The NVIDIA GPUs of the machine and who holds their memory, asked from the driver's management
// library (NVML). The library is loaded at run time: sotto builds and runs without it. Nothing here
// throws: what cannot be found out is absent, and what went wrong is a note.
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
  // By all processes, and by the driver itself.
  int64_t used_bytes = 0;
  int64_t free_bytes = 0;
};

struct GpuProcess {
  int64_t pid = 0;
  // Empty where it cannot be seen from here, as from inside a container.
  std::string name = {};
  // Nothing where the driver does not tell.
  std::optional<int64_t> used_bytes = {};
};

struct GpuInfo {
  // NVML's number: bus order, whatever CUDA_VISIBLE_DEVICES says.
  int64_t index = 0;
  std::string name = {};
  std::string uuid = {};
  std::optional<ComputeCapability> capability = {};
  std::optional<int64_t> num_sms = {};
  std::optional<GpuMemory> memory = {};
  std::vector<GpuProcess> processes = {};
};

struct GpuProfile {
  // Empty where the driver does not tell.
  std::string driver_version = {};
  // Highest CUDA version the driver can run: "13.0".
  std::string cuda_version = {};
  std::vector<GpuInfo> gpus = {};
  // What failed, one sentence each; the reason where there is no GPU.
  std::vector<std::string> notes = {};
};

struct GpuSource {
  std::string library = "libnvidia-ml.so.1";
  // Holds proc/PID/comm, the names of processes.
  std::filesystem::path root = "/";
};

GpuProfile read_gpus(const GpuSource& source = {});

// Cores of one streaming multiprocessor; nothing for a capability not known here.
std::optional<int64_t> cores_per_sm(ComputeCapability capability);

}  // namespace sotto::device
