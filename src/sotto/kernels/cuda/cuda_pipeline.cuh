// Loads that are issued some iterations before their use, so that a loop does not wait for memory.
#pragma once

namespace sotto::kernels {

// Calls use(k, load(k)) for k = 0 .. count, with loads issued kAhead iterations before their use.
// Loaded values must only be accessed in use(), otherwise the thread waits for them.
template <int kAhead, class Load, class Use>
__device__ void pipeline(int count, Load load, Use use) {
  decltype(load(0)) loaded[kAhead];
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    if (k < count) loaded[k] = load(k);
  }
  for (int first = 0; first < count; first += kAhead) {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k >= count) return;
      const auto now = loaded[k];
      if (first + k + kAhead < count) loaded[k] = load(first + k + kAhead);
      use(first + k, now);
    }
  }
}

}  // namespace sotto::kernels
