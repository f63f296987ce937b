// The part of NVML's C interface that sotto uses, declared by hand: the driver's library is loaded
// at run time, and its header need not be installed. Included only by gpu_info.cpp and
// gpu_memory_watch.cpp.
#pragma once

#include <string>

namespace sotto::device::nvml {

using Status = int;

inline constexpr Status kSuccess = 0;
inline constexpr Status kNotSupported = 3;
inline constexpr Status kInsufficientSize = 7;

// nvmlDevice_t: a pointer, or a struct of one pointer, depending on the header; both are passed in
// the same way.
using Device = void*;

// nvmlMemory_t
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(Memory) == 24);

// nvmlProcessInfo_t of the _v3 functions
struct Process {
  unsigned int pid;
  unsigned long long used_bytes;  // kUnknownBytes if the driver does not report it
  unsigned int gpu_instance;
  unsigned int compute_instance;
};
static_assert(sizeof(Process) == 24);

inline constexpr unsigned long long kUnknownBytes = ~0ULL;

// Functions by their names in the library without the prefix; null if the library lacks them.
struct Functions {
  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  const char* (*error_string)(Status) = nullptr;
  Status (*driver_version)(char*, unsigned int) = nullptr;
  Status (*cuda_version)(int*) = nullptr;
  Status (*device_count)(unsigned int*) = nullptr;
  Status (*device_by_index)(unsigned int, Device*) = nullptr;
  Status (*device_name)(Device, char*, unsigned int) = nullptr;
  Status (*device_uuid)(Device, char*, unsigned int) = nullptr;
  Status (*device_memory)(Device, Memory*) = nullptr;
  Status (*device_capability)(Device, int*, int*) = nullptr;
  Status (*device_num_cores)(Device, unsigned int*) = nullptr;
  Status (*compute_processes)(Device, unsigned int*, Process*) = nullptr;
  Status (*graphics_processes)(Device, unsigned int*, Process*) = nullptr;
};

// Keeps the library open and initialised for its lifetime.
class Session {
 public:
  explicit Session(const std::string& library);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Empty if the library is ready, otherwise the reason why it is not.
  const std::string& failure() const { return failure_; }
  const Functions& functions() const { return functions_; }

  // Returns the library's description of a status.
  std::string describe(Status status) const;

 private:
  void* handle_ = nullptr;
  bool initialised_ = false;
  std::string failure_;
  Functions functions_;
};

}  // namespace sotto::device::nvml
