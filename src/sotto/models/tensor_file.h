// Tensors of a network or its optimizer in files of weights: checkpoints of our own, each tensor in
// its type and to the bit, and folders that other programs wrote.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sotto/core/weight_folder.h"

namespace sotto::models {

// A tensor with the name that it has in a file: contiguous, fp32, bf16, int16 or uint8; fp16 only
// to be read.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  // In the file; empty: the tensor's own.
  std::vector<int64_t> shape = {};
  // Of a convolution's weight: rows here are [taps, inputs], in the file [inputs, taps]. 0: no
  // such.
  int64_t taps = 0;
  // Other names that files have it under.
  std::vector<std::string> aliases = {};
  // int16 or uint8, as many as a bf16 tensor has: what it leaves out of fp32 values that are
  // imported, or as much as it holds of that.
  // Undefined: that is lost.
  at::Tensor remainder = {};
};

// Throws DataError where it cannot be written.
void write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

// The same as a folder of Hugging Face has them: one file, or several of at most so many bytes with
// an index.
void write_tensor_folder(const std::filesystem::path& folder,
                         const std::vector<NamedTensor>& tensors, int64_t max_shard_bytes);

// The file's values into the tensors. Throws DataError with the differences where names, shapes or
// types are others; nothing is then changed.
void load_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

// What an import may find otherwise.
struct ImportRules {
  // What the names of tensors begin with that a folder need not have, and of those that it has in
  // vain.
  std::vector<std::string> may_lack = {};
  std::vector<std::string> may_leave = {};
  // What all names begin with, and may not.
  std::string optional_prefix = {};
};

struct Imported {
  // Tensors that stay as they were, and names of the folder that were left there.
  std::vector<std::string> lacked = {};
  std::vector<std::string> left = {};
};

// The folder's values into the tensors, converted to their types. Throws DataError with the
// differences where names or shapes are others and the rules do not allow it; nothing is then
// changed.
Imported import_tensors(const WeightFolder& folder, const std::vector<NamedTensor>& tensors,
                        const ImportRules& rules);

}  // namespace sotto::models
