#include "sotto/device/gpu_memory_watch.h"

#include <array>

#include "sotto/device/nvml.h"

namespace sotto::device {

namespace {

// Longer than a UUID, and than any text of NVML (96).
constexpr unsigned int kNameBytes = 256;

nvml::Device find_device(const nvml::Functions& nvml, std::string_view uuid) {
  unsigned int count = 0;
  if (nvml.device_uuid == nullptr || nvml.device_count(&count) != nvml::kSuccess) return nullptr;
  for (unsigned int i = 0; i < count; ++i) {
    nvml::Device device = nullptr;
    std::array<char, kNameBytes> text = {};
    if (nvml.device_by_index(i, &device) == nvml::kSuccess &&
        nvml.device_uuid(device, text.data(), kNameBytes) == nvml::kSuccess && uuid == text.data())
      return device;
  }
  return nullptr;
}

}  // namespace

GpuMemoryWatch::GpuMemoryWatch(std::string_view uuid, const std::string& library)
    : session_(std::make_unique<nvml::Session>(library)) {
  if (session_->failure().empty()) device_ = find_device(session_->functions(), uuid);
}

GpuMemoryWatch::~GpuMemoryWatch() = default;

std::optional<GpuMemory> GpuMemoryWatch::read() const {
  nvml::Memory memory = {};
  const nvml::Functions& nvml = session_->functions();
  if (device_ == nullptr || nvml.device_memory == nullptr ||
      nvml.device_memory(device_, &memory) != nvml::kSuccess)
    return std::nullopt;
  return GpuMemory{.total_bytes = static_cast<int64_t>(memory.total),
                   .used_bytes = static_cast<int64_t>(memory.used),
                   .free_bytes = static_cast<int64_t>(memory.free)};
}

}  // namespace sotto::device
