#include "sotto/device/memory_holders.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/core/units.h"

namespace sotto::device {

namespace {

// Idle cards report up to 0.6 GiB (H200).
constexpr int64_t kIdleBytes = int64_t{1} << 30;

}  // namespace

std::vector<MemoryHolder> memory_holders(const GpuInfo& gpu, std::optional<int64_t> except_pid) {
  std::vector<MemoryHolder> holders;
  int64_t rest = gpu.memory ? gpu.memory->used_bytes : 0;
  for (const GpuProcess& process : gpu.processes) {
    rest -= process.used_bytes.value_or(0);
    if (process.pid == except_pid) continue;
    holders.push_back({.name = process.name, .pid = process.pid, .bytes = process.used_bytes});
  }
  if (rest > 0) holders.push_back({.name = "driver and hidden processes", .bytes = rest});
  return holders;
}

bool are_programs(const std::vector<MemoryHolder>& holders) {
  return std::ranges::any_of(holders, [](const MemoryHolder& holder) {
    return holder.pid.has_value() || holder.bytes.value_or(0) > kIdleBytes;
  });
}

std::string holder_name(const MemoryHolder& holder) {
  return holder.name.empty() ? "unknown" : holder.name;
}

std::string describe_holders(const std::vector<MemoryHolder>& holders) {
  std::string text;
  for (const MemoryHolder& holder : holders) {
    if (!text.empty()) text += ", ";
    text += holder.name.empty() ? "a hidden process" : holder.name;
    if (holder.pid) text += fmt::format(" (pid {})", *holder.pid);
    text += holder.bytes ? " " + format_bytes(*holder.bytes) : " an unknown amount";
  }
  return text;
}

}  // namespace sotto::device
