// What the rows of the kernel table share, and the parts of them that are in files of their own.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "sotto/core/rng.h"
#include "support/kernel_cases.h"

namespace sotto::test {

// The kernels that know neither rows nor utterances.
std::vector<KernelCase> flat_kernel_cases();

// The kernels that know the boundaries of utterances.
std::vector<KernelCase> pack_kernel_cases();

// The convolution of positions and what belongs to it.
std::vector<KernelCase> convolution_kernel_cases();

// Convolutions over time and bins.
std::vector<KernelCase> image_kernel_cases();

// Recurrences over packed sequences.
std::vector<KernelCase> recurrent_kernel_cases();

// Features of waveforms.
std::vector<KernelCase> feature_kernel_cases();

// The transducer loss.
std::vector<KernelCase> transducer_kernel_cases();

inline at::Tensor random_values(at::IntArrayRef sizes, uint64_t seed) {
  at::Tensor values = at::empty(sizes, at::kDouble);
  const RandomStream stream({.seed = seed});
  for (int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<double>()[i] = stream.normal(static_cast<uint64_t>(i));
  }
  return values;
}

inline Input data(at::IntArrayRef sizes, uint64_t seed) {
  return {Input::Kind::kData, random_values(sizes, seed)};
}
inline Input parameter(at::IntArrayRef sizes, uint64_t seed) {
  return {Input::Kind::kFloat, random_values(sizes, seed)};
}

inline at::Tensor zeros(at::IntArrayRef sizes, const at::Tensor& like, at::ScalarType type) {
  at::Tensor result = at::empty(sizes, like.options().dtype(type));
  if (!result.is_meta()) result.zero_();
  return result;
}

inline at::Tensor float_zeros(at::IntArrayRef sizes, const at::Tensor& like) {
  return zeros(sizes, like, at::kFloat);
}

// A copy to be changed in place, allocated by the kernel's caller.
inline at::Tensor copy_of(const at::Tensor& x) {
  at::Tensor copy = at::empty_like(x);
  if (!x.is_meta()) copy.copy_(x);
  return copy;
}

inline at::Tensor leaf(const at::Tensor& x) {
  return x.detach().clone().set_requires_grad(true);
}

}  // namespace sotto::test
