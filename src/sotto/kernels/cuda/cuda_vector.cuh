// Adjacent elements that one thread reads, processes in fp32 and writes, and the choice of their
// number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "sotto/kernels/base/cuda_array.h"
#include "sotto/kernels/cuda/cuda_launch.cuh"

namespace sotto::kernels {

// Vector size for every type: one block of dropout_mask.h, sixteen bytes of 16-bit elements, and
// twice that of fp32.
inline constexpr int kVectorSize = 8;

// If the elements fill a multiple of sixteen bytes, or eight or four bytes, they are read and
// written with that width: sixteen bytes are the widest access of a thread. Their address must then
// be a multiple of it.
template <class T, int kSize>
struct Vector {
  static constexpr size_t kBytes = kSize * sizeof(T);
  static constexpr bool kIsWide = kSize > 1 && (kBytes % 16 == 0 || kBytes == 8 || kBytes == 4);

  alignas(!kIsWide ? alignof(T) : kBytes < 16 ? kBytes : 16) T values[kSize];

  __device__ float operator[](int i) const { return static_cast<float>(values[i]); }
  __device__ void set(int i, float value) { values[i] = static_cast<T>(value); }
};

template <int kSize, class T>
__device__ Vector<T, kSize> load(const T* from) {
  if constexpr (Vector<T, kSize>::kIsWide) {
    return *reinterpret_cast<const Vector<T, kSize>*>(from);
  } else {
    Vector<T, kSize> result;
    for (int i = 0; i < kSize; ++i) result.values[i] = from[i];
    return result;
  }
}

template <int kSize, class T>
__device__ void store(T* to, const Vector<T, kSize>& vector) {
  if constexpr (Vector<T, kSize>::kIsWide) {
    *reinterpret_cast<Vector<T, kSize>*>(to) = vector;
  } else {
    for (int i = 0; i < kSize; ++i) to[i] = vector.values[i];
  }
}

template <class T, int kSize>
__device__ Vector<T, kSize> zero_vector() {
  Vector<T, kSize> result;
  for (int i = 0; i < kSize; ++i) result.set(i, 0.0f);
  return result;
}

// Returns whether rows of `width` elements are whole vectors in all arrays; absent arrays are
// ignored.
inline bool fits_vectors(int64_t width, std::initializer_list<const void*> arrays) {
  if (width % kVectorSize != 0) return false;
  for (const void* array : arrays) {
    if (reinterpret_cast<uintptr_t>(array) % 16 != 0) return false;
  }
  return true;
}

// Calls body with the number of elements a thread processes at once, as a constant.
template <class Body>
void with_vector_size(bool fits, Body body) {
  if (fits) {
    body(std::integral_constant<int, kVectorSize>{});
  } else {
    body(std::integral_constant<int, 1>{});
  }
}

// Calls body(at, size) for all of n elements in a grid of launch_shape(): kSize of them at once,
// the remainder one by one.
template <int kSize, class Body>
__device__ void for_each_vector(int64_t n, Body body) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t num_vectors = n / kSize;
  for (int64_t v = first; v < num_vectors; v += stride) {
    body(v * kSize, std::integral_constant<int, kSize>{});
  }
  for (int64_t i = num_vectors * kSize + first; i < n; i += stride) {
    body(i, std::integral_constant<int, 1>{});
  }
}

// Returns a typed pointer to an array's elements.
template <class T>
__host__ __device__ T* data_of(const CudaArray& array) {
  return static_cast<T*>(array.data);
}

}  // namespace sotto::kernels
