#include "sotto/device/host_info.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "sotto/core/cgroup.h"
#include "sotto/core/error.h"
#include "sotto/core/processors.h"
#include "sotto/core/system_file.h"
#include "sotto/core/words.h"

namespace sotto::device {

namespace {

using Fields = std::map<std::string, std::string, std::less<>>;

std::string field_or_empty(const Fields& fields, std::string_view key) {
  const auto found = fields.find(key);
  return found == fields.end() ? std::string() : found->second;
}

// Parses lines of KEY, separator, value, up to the first empty line: all cores in /proc/cpuinfo
// have the same values except for their indices.
Fields read_fields(const std::filesystem::path& path, char separator) {
  const std::string text = read_text(path).value_or("");
  Fields fields;
  for (const std::string_view line : split_lines(text)) {
    if (trimmed(line).empty() && !fields.empty()) break;
    const size_t index = line.find(separator);
    if (index == std::string_view::npos) continue;
    fields.emplace(trimmed(line.substr(0, index)), trimmed(line.substr(index + 1)));
  }
  return fields;
}

struct Name {
  std::string_view code;
  std::string_view name;
};

// Implementer and part numbers of Arm's MIDR_EL1 register, for the machines offered by cloud
// providers.
constexpr std::array kImplementers = {
    Name{"0x41", "Arm"},    Name{"0x46", "Fujitsu"},  Name{"0x48", "HiSilicon"},
    Name{"0x4e", "NVIDIA"}, Name{"0x51", "Qualcomm"}, Name{"0x61", "Apple"},
    Name{"0xc0", "Ampere"},
};
constexpr std::array kArmParts = {
    Name{"0xd08", "Cortex-A72"},  Name{"0xd0b", "Cortex-A76"},  Name{"0xd0c", "Neoverse-N1"},
    Name{"0xd40", "Neoverse-V1"}, Name{"0xd49", "Neoverse-N2"}, Name{"0xd4f", "Neoverse-V2"},
    Name{"0xd84", "Neoverse-V3"}, Name{"0xd8e", "Neoverse-N3"},
};

template <size_t N>
std::optional<std::string_view> name_of(std::string_view code, const std::array<Name, N>& names) {
  for (const Name& entry : names) {
    if (entry.code == code) return entry.name;
  }
  return std::nullopt;
}

std::string find_cpu_model(const Fields& cpu, const std::string& architecture) {
  std::string model = field_or_empty(cpu, "model name");
  if (!model.empty()) return model;
  const std::string implementer = field_or_empty(cpu, "CPU implementer");
  const std::string part = field_or_empty(cpu, "CPU part");
  if (implementer.empty()) return architecture;
  const auto maker = name_of(implementer, kImplementers);
  if (maker == "Arm") {
    const auto core = name_of(part, kArmParts);
    if (core) return fmt::format("Arm {}", *core);
  }
  const std::string by = maker ? std::string(*maker)
                               : fmt::format("{} CPU of implementer {}", architecture, implementer);
  return part.empty() ? by : fmt::format("{} part {}", by, part);
}

std::vector<std::string> features_of(const Fields& cpu) {
  const std::string x86 = field_or_empty(cpu, "flags");
  return split_words(x86.empty() ? field_or_empty(cpu, "Features") : x86);
}

std::string find_operating_system(const std::filesystem::path& root) {
  const std::string quoted =
      field_or_empty(read_fields(root / "etc/os-release", '='), "PRETTY_NAME");
  std::string_view name = quoted;
  if (name.size() >= 2 && name.front() == '"' && name.back() == '"')
    name = name.substr(1, name.size() - 2);
  return name.empty() ? "Linux" : std::string(name);
}

// Returns the bytes of a line such as "MemTotal:  24682740 kB".
std::optional<int64_t> meminfo_bytes(const Fields& meminfo, std::string_view key) {
  const std::vector<std::string> words = split_words(field_or_empty(meminfo, key));
  const std::optional<int64_t> kib = words.empty() ? std::nullopt : parse_integer(words.front());
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

void read_memory(const std::filesystem::path& root, const CgroupLimits& limits, HostInfo& host) {
  const Fields meminfo = read_fields(root / "proc/meminfo", ':');
  const std::optional<int64_t> total = meminfo_bytes(meminfo, "MemTotal");
  if (!total) {
    throw DataError(
        {.attempted = "reading the amount of RAM",
         .found = fmt::format("{} has no line MemTotal", (root / "proc/meminfo").string()),
         .expected = "the /proc file system of Linux"});
  }
  // Kernels before 3.14 do not report MemAvailable.
  const std::optional<int64_t> available = meminfo_bytes(meminfo, "MemAvailable");
  host.machine_bytes = *total;
  host.total_bytes = *total;
  host.free_bytes = available ? *available : meminfo_bytes(meminfo, "MemFree").value_or(0);
  if (limits.memory_limit_bytes && *limits.memory_limit_bytes < *total) {
    host.container_limit_bytes = limits.memory_limit_bytes;
    host.total_bytes = *limits.memory_limit_bytes;
  }
  if (limits.memory_free_bytes)
    host.free_bytes = std::min(host.free_bytes, *limits.memory_free_bytes);
}

}  // namespace

std::string running_architecture() {
  utsname name = {};
  return uname(&name) == 0 ? name.machine : "unknown";
}

HostInfo read_host(const HostSource& source) {
  const Fields cpu = read_fields(source.root / "proc/cpuinfo", ':');
  const CgroupLimits limits = read_cgroup_limits(source.root);
  HostInfo host = {.operating_system = find_operating_system(source.root),
                   .architecture = source.architecture,
                   .cpu_model = find_cpu_model(cpu, source.architecture),
                   .cpu_features = features_of(cpu),
                   .num_cores = usable_cores(source.num_scheduled_cores, limits.cpu_quota_cores)};
  if (host.num_cores < source.num_scheduled_cores) host.cpu_quota_cores = limits.cpu_quota_cores;
  read_memory(source.root, limits, host);
  return host;
}

MemoryAvailable read_host_memory(const std::filesystem::path& root) {
  HostInfo host;
  read_memory(root, read_cgroup_limits(root), host);
  return {.total_bytes = host.total_bytes, .free_bytes = host.free_bytes};
}

std::vector<std::string> read_cpu_features(const std::filesystem::path& root) {
  return features_of(read_fields(root / "proc/cpuinfo", ':'));
}

}  // namespace sotto::device
