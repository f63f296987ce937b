// Memory and CPU time that Linux control groups allow this process. Versions 1 and 2 (and machines
// that mount both) are read, for the process's own group and all of its ancestors, because the
// tightest limit on the path to the root applies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace sotto {

struct CgroupLimits {
  // The lowest memory limit; std::nullopt if none is set. Version 1 expresses "none" as a number
  // larger than any machine's memory.
  std::optional<int64_t> memory_limit_bytes = {};
  // Memory that can still be allocated under every limit. File cache that the kernel would drop
  // counts as free.
  std::optional<int64_t> memory_free_bytes = {};
  // CPU time in cores: 1.5 means one and a half cores.
  std::optional<double> cpu_quota_cores = {};
};

// Returns the limits of this process, read from the file tree below `root` ("/" except in tests).
CgroupLimits read_cgroup_limits(const std::filesystem::path& root);

}  // namespace sotto
