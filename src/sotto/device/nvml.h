// The part of NVML's C interface that sotto uses, declared by hand: the driver's library is opened
// at run time, and its header need not be installed. Only gpu_info.cpp and gpu_memory_watch.cpp
// include this.
#pragma once

#include <string>

namespace sotto::device::nvml {

using Status = int;

inline constexpr Status kSuccess = 0;
inline constexpr Status kNotSupported = 3;
inline constexpr Status kInsufficientSize = 7;

// nvmlDevice_t: a pointer in C's eyes, or a struct of one pointer; both are passed alike.
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
  unsigned long long used_bytes;  // kUnknownBytes where the driver does not tell
  unsigned int gpu_instance;
  unsigned int compute_instance;
};
static_assert(sizeof(Process) == 24);

inline constexpr unsigned long long kUnknownBytes = ~0ULL;

// Functions by their names in the library without the prefix; null where the library has none.
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

// The library, open and initialised for as long as this lives.
class Session {
 public:
  explicit Session(const std::string& library);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Empty where the library is ready to be asked, else why it is not.
  const std::string& failure() const { return failure_; }
  const Functions& functions() const { return functions_; }

  // The library's own words for a status.
  std::string describe(Status status) const;

 private:
  void* handle_ = nullptr;
  bool initialised_ = false;
  std::string failure_;
  Functions functions_;
};

}  // namespace sotto::device::nvml
