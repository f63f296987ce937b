// The GPU for tests, opened once; tests skip where there is none.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "sotto/device/cuda_device.h"
#include "sotto/device/run_device.h"

namespace sotto::test {

// Absent where there is no GPU, or the build has no CUDA. cuBLAS takes its workspace at the first
// product of each kind and keeps it: that belongs to no arena, and is done here.
inline const std::optional<device::RunDevice>& gpu(bool is_deterministic = false) {
  static const std::optional<device::RunDevice> opened = [&]() -> std::optional<device::RunDevice> {
    if (!at::hasCUDA()) return std::nullopt;
    device::RunDevice device = device::open_device("cuda", {}, is_deterministic);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor a = at::ones({64, 64}, at::TensorOptions().device(at::kCUDA).dtype(type));
      const at::Tensor bias = at::ones({64}, a.options());
      at::Tensor sum = at::zeros({64, 64}, a.options().dtype(at::kFloat));
      at::addmm(bias, a, a);
      at::mm(a, a);
      if (type != at::kFloat) at::addmm_out(sum, sum, a, a, at::kFloat);
    }
    device::synchronize_cuda();
    return device;
  }();
  return opened;
}

}  // namespace sotto::test

#define SOTTO_SKIP_WITHOUT_GPU() \
  if (!::sotto::test::gpu()) GTEST_SKIP() << "no GPU, or a build without CUDA"
