// A tensor as CUDA sources see it, which include no LibTorch header: that keeps their compile time
// at seconds.
#pragma once

#include <cstdint>

#include "sotto/kernels/element_type.h"

namespace sotto::kernels {

struct CudaArray {
  void* data = nullptr;
  int64_t num_elements = 0;
  ElementType type = ElementType::kFloat;
};

}  // namespace sotto::kernels
