// CPU, cores and RAM of the host, as far as this process may use them. Inside a container the
// values are the container's. Supports x86_64 and aarch64.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/processors.h"
#include "sotto/device/budget.h"

namespace sotto::device {

struct HostInfo {
  // Example: "Debian GNU/Linux 12 (bookworm)"; "Linux" if the system does not report it.
  std::string operating_system = {};
  // Architecture in the notation of uname: "x86_64", "aarch64".
  std::string architecture = {};
  // Examples: "Intel(R) Xeon(R) Processor", "Arm Neoverse-N1"; the architecture if the model is
  // unknown.
  std::string cpu_model = {};
  // Features such as "avx2" and "fma", in the kernel's spelling and order.
  std::vector<std::string> cpu_features = {};
  // Cores this process can keep busy: its affinity, or the rounded-up quota if that is less.
  int64_t num_cores = 1;
  // CPU time of the container in cores, if it is limited.
  std::optional<double> cpu_quota_cores = {};
  // RAM of the machine.
  int64_t machine_bytes = 0;
  // RAM limit of the container, if it is below the RAM of the machine.
  std::optional<int64_t> container_limit_bytes = {};
  // Maximum RAM of this process, and RAM it could allocate now.
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
};

// Returns the architecture of the running kernel.
std::string running_architecture();

// Sources of the values; tests pass their own folder and values.
struct HostSource {
  std::filesystem::path root = "/";
  std::string architecture = running_architecture();
  int64_t num_scheduled_cores = count_scheduled_cores();
};

// Reads the host's properties. Throws DataError where /proc/meminfo does not contain the amount of
// RAM; every other missing value has a fallback.
HostInfo read_host(const HostSource& source = {});

// Reads only the RAM, total_bytes and free_bytes, for repeated calls.
MemoryAvailable read_host_memory(const std::filesystem::path& root = "/");

// Reads only the CPU's features; empty if /proc/cpuinfo does not list them.
std::vector<std::string> read_cpu_features(const std::filesystem::path& root = "/");

}  // namespace sotto::device
