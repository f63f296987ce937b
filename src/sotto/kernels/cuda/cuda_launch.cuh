// Common code of the CUDA versions of kernels: element types, launch shapes, and launch errors.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "sotto/kernels/base/element_type.h"

namespace sotto::kernels {

// Calls body with a value of the CUDA type.
template <class Body>
void with_cuda_type(ElementType type, Body body) {
  switch (type) {
    case ElementType::kFloat: return body(float{});
    case ElementType::kBFloat16: return body(__nv_bfloat16{});
    case ElementType::kHalf: return body(__half{});
  }
}

struct LaunchShape {
  unsigned blocks;
  unsigned threads;
};

// Returns a grid that strides over `num_items`: enough blocks to fill any card a few times, no
// more.
inline LaunchShape launch_shape(int64_t num_items) {
  constexpr int64_t kThreads = 256;
  constexpr int64_t kMaxBlocks = 148 * 16;
  const int64_t blocks = std::clamp<int64_t>((num_items + kThreads - 1) / kThreads, 1, kMaxBlocks);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(kThreads)};
}

inline void check_launch(const char* kernel) {
  const cudaError_t code = cudaGetLastError();
  if (code != cudaSuccess)
    throw std::runtime_error(std::string(kernel) + ": " + cudaGetErrorString(code));
}

}  // namespace sotto::kernels
