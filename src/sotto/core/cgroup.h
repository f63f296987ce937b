// What the control groups of Linux leave this process: memory and CPU time. Both versions (and
// machines that mount both) are read, at the process's own group and at every one above it, because
// the tightest limit on the way up is the one that counts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace sotto {

struct CgroupLimits {
  // The lowest memory limit; nothing where none is set. Version 1 writes "none" as a number beyond
  // any machine.
  std::optional<int64_t> memory_limit_bytes = {};
  // What can still be taken under every limit, file cache that the kernel would drop counted as
  // free.
  std::optional<int64_t> memory_free_bytes = {};
  // CPU time in cores: 1.5 is one and a half.
  std::optional<double> cpu_quota_cores = {};
};

// Limits of this process as the tree below `root` ("/" but in tests) states them.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root);

}  // namespace sotto
