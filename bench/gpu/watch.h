// Time and memory of whole updates on a GPU.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "sotto/device/run_device.h"

namespace sotto::bench {

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The most that the driver showed for this process, asked every 10 ms by a thread of its own.
class Watch {
 public:
  explicit Watch(const device::RunDevice& device)
      : thread_([this, device](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            const int64_t used = device::used_by_this_process(device);
            if (used > most_) most_ = used;
            ++samples_;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
        }) {}
  int64_t stop() {
    thread_.request_stop();
    thread_.join();
    return most_;
  }
  int64_t samples() const { return samples_; }

 private:
  std::atomic<int64_t> most_ = 0;
  std::atomic<int64_t> samples_ = 0;
  std::jthread thread_;  // stops and joins itself where a step throws
};

}  // namespace sotto::bench
