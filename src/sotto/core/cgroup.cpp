#include "sotto/core/cgroup.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/system_file.h"
#include "sotto/core/words.h"

namespace sotto {

namespace {

using Folders = std::vector<std::filesystem::path>;

// Names of the same three values in each of the two cgroup versions.
struct MemoryNames {
  std::string_view limit;
  std::string_view usage;
  std::string_view droppable;  // a line of memory.stat
};

constexpr MemoryNames kMemoryV1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                   "total_inactive_file"};
constexpr MemoryNames kMemoryV2 = {"memory.max", "memory.current", "inactive_file"};

template <typename Number>
void lower_to(std::optional<Number>& least, Number value) {
  least = least ? std::min(*least, value) : value;
}

// Returns the group's folder and its ancestors up to the mount point. In a container the mount
// point is often the group itself, while /proc still gives the path outside of it: folders that do
// not exist have no files to read and do no harm.
Folders folders_up(const std::filesystem::path& mount, std::string_view group) {
  Folders folders = {mount};
  for (const auto& part : std::filesystem::path(group).relative_path()) {
    // The group is outside the container's view; only the mount point can be read.
    if (part == "..") return {mount};
    if (!part.empty()) folders.push_back(folders.back() / part);
  }
  return folders;
}

int64_t read_droppable(const std::filesystem::path& folder, std::string_view key) {
  const std::string text = read_text(folder / "memory.stat").value_or("");
  for (const std::string_view line : split_lines(text)) {
    if (line.starts_with(key) && line.substr(key.size()).starts_with(' '))
      return parse_integer(line.substr(key.size())).value_or(0);
  }
  return 0;
}

void apply_memory(const Folders& folders, const MemoryNames& names, CgroupLimits& limits) {
  for (const auto& folder : folders) {
    const std::optional<int64_t> limit = read_integer(folder / names.limit);
    if (!limit) continue;
    const int64_t usage = read_integer(folder / names.usage).value_or(0);
    const int64_t held = std::max<int64_t>(0, usage - read_droppable(folder, names.droppable));
    lower_to(limits.memory_limit_bytes, *limit);
    lower_to(limits.memory_free_bytes, std::max<int64_t>(0, *limit - held));
  }
}

void apply_quota(std::optional<int64_t> quota_us, std::optional<int64_t> period_us,
                 CgroupLimits& limits) {
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) return;
  lower_to(limits.cpu_quota_cores,
           static_cast<double>(*quota_us) / static_cast<double>(*period_us));
}

void apply_cpu_v1(const Folders& folders, CgroupLimits& limits) {
  for (const auto& folder : folders) {
    apply_quota(read_integer(folder / "cpu.cfs_quota_us"),
                read_integer(folder / "cpu.cfs_period_us"), limits);
  }
}

void apply_cpu_v2(const Folders& folders, CgroupLimits& limits) {
  for (const auto& folder : folders) {
    const std::vector<std::string> words = split_words(read_text(folder / "cpu.max").value_or(""));
    if (words.size() == 2) apply_quota(parse_integer(words[0]), parse_integer(words[1]), limits);
  }
}

bool names_controller(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const std::string_view name = controllers.substr(0, controllers.find(','));
    if (name == wanted) return true;
    controllers.remove_prefix(std::min(name.size() + 1, controllers.size()));
  }
  return false;
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::filesystem::path& root) {
  const std::filesystem::path mounts = root / "sys/fs/cgroup";
  const std::string text = read_text(root / "proc/self/cgroup").value_or("");
  CgroupLimits limits;
  // Each line has the form HIERARCHY:CONTROLLERS:GROUP; version 2 names no controllers.
  for (const std::string_view line : split_lines(text)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    if (controllers.empty()) {
      // Version 2 is mounted either alone or, on machines that mount both, next to version 1.
      for (const auto& mount : {mounts, mounts / "unified"}) {
        const Folders folders = folders_up(mount, group);
        apply_memory(folders, kMemoryV2, limits);
        apply_cpu_v2(folders, limits);
      }
    }
    if (names_controller(controllers, "memory"))
      apply_memory(folders_up(mounts / "memory", group), kMemoryV1, limits);
    // Distributions mount the controller as "cpu,cpuacct" with a link "cpu", or as "cpu" alone.
    if (names_controller(controllers, "cpu"))
      apply_cpu_v1(folders_up(mounts / "cpu", group), limits);
  }
  return limits;
}

}  // namespace sotto
