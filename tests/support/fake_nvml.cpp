// A stand-in for the NVIDIA driver's library with two GPUs: an H200 with processes, and a T4 whose
// list of processes fails. Its declarations are its own, after NVIDIA's description of the
// interface, so that a mistake in ours shows.
//
// FAKE_NVML_INIT in the environment: the status that nvmlInit_v2 returns.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kInsufficientSize = 7;
constexpr int kUnknownError = 999;

struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_gpu_memory;
  unsigned int gpu_instance_id;
  unsigned int compute_instance_id;
};

struct MemoryInfo {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Device {
  const char* name;
  const char* uuid;
  int major;
  int minor;
  unsigned int cores;
  MemoryInfo memory;
};

constexpr unsigned long long kGiB = 1ULL << 30;
constexpr unsigned int kNoInstance = 0xFFFFFFFF;

std::array<Device, 2> devices = {
    Device{"NVIDIA H200", "GPU-11111111", 9, 0, 16896, {140 * kGiB, 135 * kGiB, 5 * kGiB}},
    Device{"Tesla T4", "GPU-22222222", 7, 5, 2560, {15 * kGiB, 15 * kGiB, 0}},
};

// 4242 computes and draws: in both lists, as the driver does. What 4243 holds is not told.
constexpr std::array kCompute = {ProcessInfo{4243, ~0ULL, kNoInstance, kNoInstance},
                                 ProcessInfo{4242, 3 * kGiB, kNoInstance, kNoInstance}};
constexpr std::array kGraphics = {ProcessInfo{4242, 3 * kGiB, kNoInstance, kNoInstance},
                                  ProcessInfo{4244, kGiB / 2, kNoInstance, kNoInstance}};

int copy_text(std::string_view text, char* target, unsigned int size) {
  if (text.size() + 1 > size) return kInsufficientSize;
  std::memcpy(target, text.data(), text.size());
  target[text.size()] = '\0';
  return kSuccess;
}

int copy_processes(std::span<const ProcessInfo> processes, unsigned int* count,
                   ProcessInfo* target) {
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(processes.size());
  if (room < processes.size()) return kInsufficientSize;
  std::copy(processes.begin(), processes.end(), target);
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const char* status = std::getenv("FAKE_NVML_INIT");
  return status == nullptr ? kSuccess : static_cast<int>(std::strtol(status, nullptr, 10));
}

int nvmlShutdown() {
  return kSuccess;
}

const char* nvmlErrorString(int status) {
  return status == 18 ? "Driver/library version mismatch" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return copy_text("580.95.05", version, length);
}

int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13010;
  return kSuccess;
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = devices.size();
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device** device) {
  if (index >= devices.size()) return kInvalidArgument;
  *device = &devices[index];
  return kSuccess;
}

int nvmlDeviceGetName(Device* device, char* name, unsigned int length) {
  return copy_text(device->name, name, length);
}

int nvmlDeviceGetUUID(Device* device, char* uuid, unsigned int length) {
  return copy_text(device->uuid, uuid, length);
}

int nvmlDeviceGetMemoryInfo(Device* device, MemoryInfo* memory) {
  *memory = device->memory;
  return kSuccess;
}

int nvmlDeviceGetCudaComputeCapability(Device* device, int* major, int* minor) {
  *major = device->major;
  *minor = device->minor;
  return kSuccess;
}

int nvmlDeviceGetNumGpuCores(Device* device, unsigned int* cores) {
  *cores = device->cores;
  return kSuccess;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device* device, unsigned int* count,
                                            ProcessInfo* processes) {
  if (device == &devices[1]) return kUnknownError;
  return copy_processes(kCompute, count, processes);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Device* device, unsigned int* count,
                                             ProcessInfo* processes) {
  if (device == &devices[1]) return copy_processes({}, count, processes);
  return copy_processes(kGraphics, count, processes);
}

}  // extern "C"
