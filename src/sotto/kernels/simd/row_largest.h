// The largest element of a row. Internal to the CPU kernels.
#pragma once

#include <algorithm>
#include <limits>

#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels {

// Ignores NaN; returns minus infinity if there is nothing else.
template <class T>
float largest_of(const T* x, int64_t width) {
  const int64_t whole = width / simd::kLanes * simd::kLanes;
  simd::Lanes lanes = simd::Lanes{} - std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < whole; i += simd::kLanes)
    lanes = simd::max(simd::load(x + i, simd::Full{}), lanes);
  float largest = simd::max(lanes);
  for (int64_t i = whole; i < width; ++i) largest = std::max(largest, static_cast<float>(x[i]));
  return largest;
}

}  // namespace sotto::kernels
