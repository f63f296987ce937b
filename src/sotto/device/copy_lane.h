// Sequential copies between a device and host memory, concurrent with the device's own work. On the
// CPU they run immediately; in a dry run they are skipped.
//
//   lane.follow_device();                 // x is being computed
//   lane.copy(to, x.data_ptr(), n);
//   ...                                   // the device goes on
//   lane.device_follows();                // before the memory of x is used for something else
#pragma once

#include <c10/core/DeviceType.h>

#include <cstdint>
#include <memory>

#include "sotto/device/cuda_device.h"

namespace sotto::device {

// A position on a lane: completed when all copies requested before it are done.
class CopyMark {
 private:
  friend class CopyLane;
  std::unique_ptr<CudaEvent> event_;  // for a GPU; created on first use
};

class CopyLane {
 public:
  explicit CopyLane(c10::DeviceType device);
  // Waits for its copies.
  ~CopyLane();
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  // Copies from host memory to the device or back; both buffers must stay valid until the copy is
  // done.
  void copy(void* to, const void* from, int64_t bytes);

  // Makes later copies wait for the work that the device has been given so far.
  void follow_device();
  // Makes later work of the device wait for the copies requested so far.
  void device_follows();

  void set(CopyMark& mark);
  // Makes later copies wait for everything before the mark; no effect if the mark was never set.
  void follow(const CopyMark& mark);

  // Waits until all copies are done.
  void wait();

 private:
  c10::DeviceType device_;
  std::unique_ptr<CudaStream> stream_;  // for a GPU
  CopyMark turn_;
};

}  // namespace sotto::device
