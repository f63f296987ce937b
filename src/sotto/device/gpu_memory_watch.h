// The memory of one GPU as NVML shows it, asked again and again while a run goes on: the library
// stays open in between.
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
  // The GPU with that UUID. Does not throw: a GPU or a library that is not there has nothing to
  // tell.
  explicit GpuMemoryWatch(std::string_view uuid, const std::string& library = GpuSource{}.library);
  ~GpuMemoryWatch();
  GpuMemoryWatch(const GpuMemoryWatch&) = delete;
  GpuMemoryWatch& operator=(const GpuMemoryWatch&) = delete;

  // By all processes, now; nothing where the driver does not tell.
  std::optional<GpuMemory> read() const;

 private:
  std::unique_ptr<nvml::Session> session_;
  // NVML's handle; null where the GPU was not found.
  void* device_ = nullptr;
};

}  // namespace sotto::device
