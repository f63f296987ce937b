// Repeated readings of the memory of one GPU from NVML during a run: the library stays open in
// between.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "sotto/device/gpu_info.h"

namespace sotto::device {

namespace nvml {
class Session;
}

class GpuMemoryWatch {
 public:
  // Opens the GPU with that UUID. Does not throw: without the GPU or the library, read() returns
  // std::nullopt.
  explicit GpuMemoryWatch(std::string_view uuid, const std::string& library = GpuSource{}.library);
  ~GpuMemoryWatch();
  GpuMemoryWatch(const GpuMemoryWatch&) = delete;
  GpuMemoryWatch& operator=(const GpuMemoryWatch&) = delete;

  // Returns the current memory use of all processes; std::nullopt if the driver does not report it.
  std::optional<GpuMemory> read() const;

 private:
  std::unique_ptr<nvml::Session> session_;
  // NVML's handle; null if the GPU was not found.
  void* device_ = nullptr;
};

}  // namespace sotto::device
