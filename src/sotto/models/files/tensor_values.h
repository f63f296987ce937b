// Conversion of values between files and tensors: types, the layout of convolution taps, and bf16
// values joined with and split from their fp32 remainders.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/formats/tensor_view.h"
#include "sotto/models/files/tensor_file.h"
#include "sotto/nn/parameters.h"

namespace sotto::models {

// Whether a type can hold weights.
bool holds_floats(TensorType type);

// Like read_values(), for bf16 values with remainders: int16 or uint8, one per value, in memory
// order.
std::vector<float> join_values(const NamedTensor& named, const TensorView& view,
                               const TensorView& remainder);

// Stores fp32 values in a tensor of any type, and the remainder of bf16 where the tensor has one;
// exact where both together hold fp32, else rounded to nearest.
void put_values(const NamedTensor& named, std::span<const float> values);

// Converts like put_values(), but to bytes of the tensor and of its remainder.
struct ValueBytes {
  std::vector<std::byte> values;
  std::vector<std::byte> remainder;
};
ValueBytes bytes_of_values(const NamedTensor& named, std::span<const float> values);

// Copies bytes in the tensor's own type and in memory order, unchanged.
void put_bytes(const at::Tensor& tensor, std::span<const std::byte> bytes);

// Convert a tensor's bytes between memory order and file order. Those of a convolution are
// transposed into `buffer`; all others are the same in both.
std::span<const std::byte> in_file_order(const NamedTensor& named, std::span<const std::byte> bytes,
                                         std::vector<std::byte>& buffer);
std::span<const std::byte> in_memory_order(const NamedTensor& named, const TensorView& view,
                                           std::vector<std::byte>& buffer);

// Location of a file's weight: q, k and v are parts of one parameter.
struct WeightLocation {
  const nn::Parameter* parameter = nullptr;
  int64_t first_value = 0;
};
// The weight must belong to a network with these parameters.
WeightLocation location_of(const NamedTensor& named, const nn::ParameterStore& store);

// Returns the weights, each with its part of its parameter's remainder. `remainders`: by parameter
// name, as stored by an optimizer.
std::vector<NamedTensor> with_remainders(std::vector<NamedTensor> named,
                                         const nn::ParameterStore& store,
                                         const std::map<std::string, at::Tensor>& remainders);

}  // namespace sotto::models
