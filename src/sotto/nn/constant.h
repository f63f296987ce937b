// Values of a network that are not trained: [size] fp32, counted as weights.
#pragma once

#include <ATen/ATen.h>

#include "sotto/device/memory_scope.h"

namespace sotto::nn {

inline at::Tensor constant(int64_t size, double value, const at::Device& device) {
  const device::CategoryScope category(device::Category::kWeights);
  at::Tensor result = at::empty({size}, at::TensorOptions().dtype(at::kFloat).device(device));
  if (!result.is_meta()) result.fill_(value);
  return result;
}

}  // namespace sotto::nn
