// Tensors of a checkpoint as a safetensors file, each in its own type and to the bit.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

namespace sotto::train {

// A tensor with the name that it has in a file: contiguous, fp32, bf16 or int16.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// Throws DataError where it cannot be written.
void write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

// The file's values into the tensors. Throws DataError with the differences where names, shapes or
// types are others; nothing is then changed.
void load_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

}  // namespace sotto::train
