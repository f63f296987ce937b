#include "sotto/device/hardware.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace sotto::device {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json host_to_json(const HostInfo& host) {
  return {{"operating_system", host.operating_system},
          {"architecture", host.architecture},
          {"cpu", host.cpu_model},
          {"cpu_features", host.cpu_features},
          {"cores", host.num_cores},
          {"cpu_quota_cores", or_null(host.cpu_quota_cores)},
          {"machine_memory_bytes", host.machine_bytes},
          {"container_limit_bytes", or_null(host.container_limit_bytes)},
          {"memory_total_bytes", host.total_bytes},
          {"memory_free_bytes", host.free_bytes}};
}

Json gpu_to_json(const GpuInfo& gpu) {
  Json processes = Json::array();
  for (const GpuProcess& process : gpu.processes) {
    processes.push_back({{"pid", process.pid},
                         {"name", or_null(process.name)},
                         {"memory_used_bytes", or_null(process.used_bytes)}});
  }
  const auto bytes = [&gpu](int64_t GpuMemory::* field) {
    return gpu.memory ? Json((*gpu.memory).*field) : Json(nullptr);
  };
  const Json capability =
      gpu.capability ? Json(fmt::format("{}.{}", gpu.capability->major, gpu.capability->minor))
                     : Json(nullptr);
  return {{"index", gpu.index},
          {"name", or_null(gpu.name)},
          {"uuid", or_null(gpu.uuid)},
          {"capability", capability},
          {"sms", or_null(gpu.num_sms)},
          {"memory_total_bytes", bytes(&GpuMemory::total_bytes)},
          {"memory_used_bytes", bytes(&GpuMemory::used_bytes)},
          {"memory_free_bytes", bytes(&GpuMemory::free_bytes)},
          {"processes", std::move(processes)}};
}

}  // namespace

HardwareProfile read_hardware(const HostSource& host, const GpuSource& gpu) {
  return {.host = read_host(host), .gpu = read_gpus(gpu)};
}

nlohmann::ordered_json to_json(const HardwareProfile& profile) {
  Json gpus = Json::array();
  for (const GpuInfo& gpu : profile.gpu.gpus) gpus.push_back(gpu_to_json(gpu));
  return {{"format_version", kFormatVersion},
          {"host", host_to_json(profile.host)},
          {"driver_version", or_null(profile.gpu.driver_version)},
          {"cuda_version", or_null(profile.gpu.cuda_version)},
          {"gpus", std::move(gpus)},
          {"notes", profile.gpu.notes}};
}

}  // namespace sotto::device
