#include "sotto/device/copy_lane.h"

#include <cstring>

namespace sotto::device {

CopyLane::CopyLane(c10::DeviceType device) : device_(device) {
  if (device != c10::kCUDA) return;
  stream_ = std::make_unique<CudaStream>();
  turn_.event_ = std::make_unique<CudaEvent>();
}

CopyLane::~CopyLane() = default;

void CopyLane::copy(void* to, const void* from, int64_t bytes) {
  if (stream_) {
    stream_->copy(to, from, bytes);
  } else if (device_ == c10::kCPU) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

void CopyLane::follow_device() {
  if (!stream_) return;
  turn_.event_->record(current_cuda_stream());
  turn_.event_->hold(stream_->handle());
}

void CopyLane::device_follows() {
  if (!stream_) return;
  turn_.event_->record(stream_->handle());
  turn_.event_->hold(current_cuda_stream());
}

void CopyLane::set(CopyMark& mark) {
  if (!stream_) return;
  if (!mark.event_) mark.event_ = std::make_unique<CudaEvent>();
  mark.event_->record(stream_->handle());
}

void CopyLane::follow(const CopyMark& mark) {
  if (stream_ && mark.event_) mark.event_->hold(stream_->handle());
}

void CopyLane::wait() {
  if (stream_) stream_->wait();
}

}  // namespace sotto::device
