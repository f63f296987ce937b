#include "sotto/device/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace sotto::device::nvml {

namespace {

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

Functions find_functions(void* library) {
  Functions found;
  find(library, "nvmlInit_v2", found.init);
  find(library, "nvmlShutdown", found.shutdown);
  find(library, "nvmlErrorString", found.error_string);
  find(library, "nvmlSystemGetDriverVersion", found.driver_version);
  find(library, "nvmlSystemGetCudaDriverVersion_v2", found.cuda_version);
  find(library, "nvmlDeviceGetCount_v2", found.device_count);
  find(library, "nvmlDeviceGetHandleByIndex_v2", found.device_by_index);
  find(library, "nvmlDeviceGetName", found.device_name);
  find(library, "nvmlDeviceGetUUID", found.device_uuid);
  find(library, "nvmlDeviceGetMemoryInfo", found.device_memory);
  find(library, "nvmlDeviceGetCudaComputeCapability", found.device_capability);
  find(library, "nvmlDeviceGetNumGpuCores", found.device_num_cores);
  find(library, "nvmlDeviceGetComputeRunningProcesses_v3", found.compute_processes);
  find(library, "nvmlDeviceGetGraphicsRunningProcesses_v3", found.graphics_processes);
  return found;
}

}  // namespace

Session::Session(const std::string& library) {
  handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    failure_ = dlerror();
    return;
  }
  functions_ = find_functions(handle_);
  if (!functions_.init || !functions_.device_count || !functions_.device_by_index) {
    failure_ = fmt::format("{} lacks the functions to find GPUs", library);
    return;
  }
  const Status status = functions_.init();
  initialised_ = status == kSuccess;
  if (!initialised_) failure_ = fmt::format("{} does not start: {}", library, describe(status));
}

Session::~Session() {
  if (initialised_ && functions_.shutdown) functions_.shutdown();
  if (handle_ != nullptr) dlclose(handle_);
}

std::string Session::describe(Status status) const {
  const char* text = functions_.error_string ? functions_.error_string(status) : nullptr;
  return text ? fmt::format("{} (NVML status {})", text, status)
              : fmt::format("NVML status {}", status);
}

}  // namespace sotto::device::nvml
