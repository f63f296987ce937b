// What the host is: CPU, cores and RAM, as far as this process may use them. Inside a container the
// figures are the container's. x86_64 and aarch64.
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
  // "Debian GNU/Linux 12 (bookworm)"; "Linux" where the system does not say.
  std::string operating_system = {};
  // As uname says: "x86_64", "aarch64".
  std::string architecture = {};
  // "Intel(R) Xeon(R) Processor", "Arm Neoverse-N1"; the architecture where nothing is known.
  std::string cpu_model = {};
  // "avx2", "fma", ... in the kernel's spelling and order.
  std::vector<std::string> cpu_features = {};
  // Cores this process may keep busy: its affinity, or the quota rounded up where that is less.
  int64_t num_cores = 1;
  // CPU time of the container in cores, where it is limited.
  std::optional<double> cpu_quota_cores = {};
  // RAM of the machine.
  int64_t machine_bytes = 0;
  // RAM of the container, where it is limited to less than the machine has.
  std::optional<int64_t> container_limit_bytes = {};
  // RAM this process can have at most, and RAM it could take now.
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
};

// Architecture of the running kernel.
std::string running_architecture();

// Where the facts come from; tests name a folder and facts of their own.
struct HostSource {
  std::filesystem::path root = "/";
  std::string architecture = running_architecture();
  int64_t num_scheduled_cores = count_scheduled_cores();
};

// Throws DataError where /proc/meminfo does not say how much RAM there is; everything else that is
// missing has a fallback.
HostInfo read_host(const HostSource& source = {});

// Its RAM alone: total_bytes and free_bytes, for who asks again and again.
MemoryAvailable read_host_memory(const std::filesystem::path& root = "/");

// The CPU's features alone; empty where /proc/cpuinfo does not tell.
std::vector<std::string> read_cpu_features(const std::filesystem::path& root = "/");

}  // namespace sotto::device
