// Copies between a device and host memory, one after the other, beside the device's own work. On
// the CPU they are done at once; in a dry run not at all.
//
//   lane.follow_device();                 // x is being computed
//   lane.copy(place, x.data_ptr(), n);
//   ...                                   // the device goes on
//   lane.device_follows();                // before the memory of x is used for something else
#pragma once

#include <c10/core/DeviceType.h>

#include <cstdint>
#include <memory>

#include "sotto/device/cuda_device.h"

namespace sotto::device {

// A moment on a lane: what was asked for before it.
class CopyMark {
 private:
  friend class CopyLane;
  std::unique_ptr<CudaEvent> event_;  // of a GPU, from the first time on
};

class CopyLane {
 public:
  explicit CopyLane(c10::DeviceType device);
  // Waits for its copies.
  ~CopyLane();
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  // From host memory to the device or back; both must last until the copy is done.
  void copy(void* to, const void* from, int64_t bytes);

  // Copies from now on begin when the device is done with what it was given until now.
  void follow_device();
  // What the device is given from now on begins when the copies until now are done.
  void device_follows();

  void set(CopyMark& mark);
  // Copies from now on begin when what stands before the mark is done; at once where it was never
  // set.
  void follow(const CopyMark& mark);

  // Until all copies are done.
  void wait();

 private:
  c10::DeviceType device_;
  std::unique_ptr<CudaStream> stream_;  // of a GPU
  CopyMark turn_;
};

}  // namespace sotto::device
