// Values on their way between files and tensors: types converted, the taps of convolutions turned,
// bf16 put together with what it leaves out of fp32 and taken apart again.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/formats/tensor_view.h"
#include "sotto/models/tensor_file.h"
#include "sotto/nn/parameters.h"

namespace sotto::models {

// Whether a type holds numbers that weights can be.
bool holds_floats(TensorType type);

// What read_values() reads, of bf16 and what it leaves out: int16 or uint8, as many, in the order
// of memory.
std::vector<float> join_values(const NamedTensor& named, const TensorView& view,
                               const TensorView& remainder);

// fp32 values into a tensor of any type, and what bf16 leaves out into its remainder where it has
// one; exactly where both together are fp32, else the nearest.
void put_values(const NamedTensor& named, std::span<const float> values);

// The same into bytes: what put_values() would put into the tensor, and into its remainder.
struct ValueBytes {
  std::vector<std::byte> values;
  std::vector<std::byte> remainder;
};
ValueBytes bytes_of_values(const NamedTensor& named, std::span<const float> values);

// Bytes in the tensor's own type and in the order of memory, as they are.
void put_bytes(const at::Tensor& tensor, std::span<const std::byte> bytes);

// A tensor's bytes between the order of memory and that of files. Those of a convolution are turned
// into `buffer`; of all others they are the same.
std::span<const std::byte> in_file_order(const NamedTensor& named, std::span<const std::byte> bytes,
                                         std::vector<std::byte>& buffer);
std::span<const std::byte> in_memory_order(const NamedTensor& named, const TensorView& view,
                                           std::vector<std::byte>& buffer);

// Where a weight of a file lies: q, k and v are parts of one parameter.
struct WeightPlace {
  const nn::Parameter* parameter = nullptr;
  int64_t first_value = 0;
};
// The weight must be one of a network with these parameters.
WeightPlace place_of(const NamedTensor& named, const nn::ParameterStore& store);

// The weights, each with the part of its parameter's remainder that belongs to it. `remainders`: by
// the names of parameters, as an optimizer has them.
std::vector<NamedTensor> with_remainders(std::vector<NamedTensor> named,
                                         const nn::ParameterStore& store,
                                         const std::map<std::string, at::Tensor>& remainders);

}  // namespace sotto::models
