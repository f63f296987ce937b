// How long a call takes on a GPU.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "sotto/device/cuda_device.h"

namespace sotto::bench {

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of one call: the median of some rounds of several calls, so that launching is hidden.
inline double seconds_of(const std::function<void()>& call, int num_calls) {
  std::vector<double> rounds;
  for (int round = 0; round < 8; ++round) {
    device::synchronize_cuda();
    const double start = now_s();
    for (int i = 0; i < num_calls; ++i) call();
    device::synchronize_cuda();
    rounds.push_back((now_s() - start) / num_calls);
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[rounds.size() / 2];
}

}  // namespace sotto::bench
