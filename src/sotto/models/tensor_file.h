// Tensors of a network or its optimizer in files of weights: checkpoints of our own, each tensor in
// its type and to the bit, and folders that other programs wrote.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sotto/core/formats/weight_folder.h"

namespace sotto::models {

// A tensor with the name that it has in a file: contiguous, fp32, bf16, fp16, int16 or uint8.
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

// Returns what was written. Throws DataError where it cannot be.
FileSum write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

// The same as a folder of Hugging Face has them: one file, or several of at most so many bytes with
// an index.
void write_tensor_folder(const std::filesystem::path& folder,
                         const std::vector<NamedTensor>& tensors, int64_t max_shard_bytes);

// The file's values into the tensors. Throws DataError with the differences where names, shapes or
// types are others; nothing is then changed.
void load_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

// What is otherwise in a file, in words; nothing where the tensor is there in its shape. `theirs`:
// null where it is not there.
std::string difference_of(const NamedTensor& ours, const TensorView* theirs);
// Throws the DataError of a file that holds another network.
[[noreturn]] void refuse_differences(const std::string& what, std::vector<std::string> found);

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
  int64_t num_taken = 0;
  // Tensors that stay as they were, because the folder does not have them, or has them in another
  // shape (with both shapes); names of the folder that were left there.
  std::vector<std::string> lacked = {};
  std::vector<std::string> differing = {};
  std::vector<std::string> left = {};
};

// What was not taken over, each in one line for the user.
std::vector<std::string> notes_of(const Imported& imported);

// The values of a file's tensor as fp32, in the order that they have in memory.
std::vector<float> read_values(const NamedTensor& named, const TensorView& view);
using ReadValues = std::function<std::vector<float>(const NamedTensor&, const TensorView&)>;

// The folder's values into the tensors, converted to their types. `read` may know more of them than
// the file says. Throws DataError with the differences where names or shapes are others
// and the rules do not allow it; nothing is then changed.
Imported import_tensors(const WeightFolder& folder, const std::vector<NamedTensor>& tensors,
                        const ImportRules& rules, const ReadValues& read = read_values);

// Copies of fp32 tensors in the types that a folder has them in: bf16 and fp16; all others stay.
// The prefix is that of ImportRules.
std::vector<NamedTensor> in_types_of(const WeightFolder& folder, std::vector<NamedTensor> tensors,
                                     const std::string& optional_prefix);

}  // namespace sotto::models
