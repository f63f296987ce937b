// A head of one row, spread over the lanes of a warp: for attention that reads keys one at a time.
#pragma once

#include "sotto/kernels/cuda/cuda_rows.cuh"

namespace sotto::kernels::detail {

// The values of a head that a lane holds: lane, lane + 32, ...
template <int kValues>
struct Head {
  float values[kValues];

  template <class T>
  __device__ static Head load(const T* from, int size) {
    Head head;
    for (int i = 0; i < kValues; ++i) {
      const int at = static_cast<int>(threadIdx.x % kWarp) + i * kWarp;
      head.values[i] = at < size ? static_cast<float>(from[at]) : 0.0f;
    }
    return head;
  }

  template <class T>
  __device__ void store(T* to, int size) const {
    for (int i = 0; i < kValues; ++i) {
      const int at = static_cast<int>(threadIdx.x % kWarp) + i * kWarp;
      if (at < size) to[at] = static_cast<T>(values[i]);
    }
  }

  // The result is the same on all lanes.
  __device__ float dot(const Head& other) const {
    float sum = 0.0f;
    for (int i = 0; i < kValues; ++i) sum += values[i] * other.values[i];
    return warp_sum(sum);
  }

  __device__ void add(float factor, const Head& other) {
    for (int i = 0; i < kValues; ++i) values[i] += factor * other.values[i];
  }

  __device__ void scale(float factor) {
    for (int i = 0; i < kValues; ++i) values[i] *= factor;
  }
};

}  // namespace sotto::kernels::detail
