// The softmax of a row of logits by one block: the maximum and the sum of exponentials in one pass.
#pragma once

#include <algorithm>
#include <cmath>

#include "sotto/kernels/cuda/cuda_rows.cuh"

namespace sotto::kernels {

// Threads per row: for a row of 50,000 entries in 16 bits a thread then has twelve vectors, and
// four blocks fill a multiprocessor.
inline constexpr int kMaxLogitsThreads = 512;

// Returns the threads of a block for rows of this width.
inline unsigned logits_threads(int64_t width) {
  const int64_t num_vectors = (width + kVectorSize - 1) / kVectorSize;
  return static_cast<unsigned>(
      std::min<int64_t>(kMaxLogitsThreads, (num_vectors + kWarp - 1) / kWarp * kWarp));
}

// Calls body(column, size) for the elements of a row that belong to this thread: whole vectors from
// the first aligned element on, so that the vocabulary size need not be a multiple of the vector
// size; elements before and after them one by one.
template <class T, class Body>
__device__ void for_each_part(const T* row, int width, Body body) {
  constexpr int kWide = 16;  // bytes
  const auto past = static_cast<int>(reinterpret_cast<uintptr_t>(row) % kWide);
  const int before = min(width, (kWide - past) % kWide / static_cast<int>(sizeof(T)));
  const int after = (width - before) % kVectorSize;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto num_threads = static_cast<int>(blockDim.x);
  for (int column = before + thread * kVectorSize; column < width - after;
       column += num_threads * kVectorSize) {
    body(column, std::integral_constant<int, kVectorSize>{});
  }
  for (int i = thread; i < before + after; i += num_threads)
    body(i < before ? i : width - after + (i - before), std::integral_constant<int, 1>{});
}

// The probability of the logit x is exp(x - largest) / total. Values of a thread, then of the row.
struct RowSums {
  float largest = -INFINITY;
  float total = 0.0f;   // sum of exp(x - largest); NaN if a logit is not finite
  float logits = 0.0f;  // sum of the logits

  // Rescales the sum when the maximum grows.
  __device__ void move_to(float new_largest) {
    total *= __expf(largest - new_largest);
    largest = new_largest;
  }

  template <class T, int kSize>
  __device__ void add(const Vector<T, kSize>& x) {
    float now = largest;
    for (int i = 0; i < kSize; ++i) now = fmaxf(now, x[i]);  // ignores NaN
    if (now > largest) move_to(now);
    for (int i = 0; i < kSize; ++i) {
      total += __expf(x[i] - largest);
      logits += x[i];
    }
  }

  __device__ void join_team() {
    const float of_row = team_largest(largest);
    // A thread without elements has no sum to rescale; its maximum is minus infinity.
    if (of_row > largest) move_to(of_row);
    logits = team_sum(logits);
    // 0, or NaN if a logit is not finite: minus infinity is a failure too, not a probability of 0.
    total = team_sum(total) + (logits - logits);
  }
};

}  // namespace sotto::kernels
