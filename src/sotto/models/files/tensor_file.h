// Tensors of a network or its optimizer in weight files: our own checkpoints, bit-exact in each
// tensor's type, and folders written by other programs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/formats/weight_folder.h"

namespace sotto::models {

// A tensor with its name in a file: contiguous, fp32, bf16, fp16, int16 or uint8.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  // Shape in the file; empty: the tensor's own.
  std::vector<int64_t> shape = {};
  // For a convolution's weight: rows in memory are [taps, inputs], in the file [inputs, taps]. 0:
  // not a convolution.
  int64_t taps = 0;
  // Other names of it in files.
  std::vector<std::string> aliases = {};
  // Remainders of a bf16 tensor, int16 or uint8, one per value: on import they receive the fp32
  // bits that bf16 drops, as far as they fit. Undefined: those bits are lost.
  at::Tensor remainder = {};
  // Name of a counter beside it, int64, that PyTorch writes and nothing reads: written as 0. Empty:
  // none.
  std::string counter = {};
};

// Returns the size and checksum of the file. Throws DataError on failure.
FileSum write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

// Writes tensors as a Hugging Face folder: one file, or several of at most max_shard_bytes with an
// index.
void write_tensor_folder(const std::filesystem::path& folder,
                         const std::vector<NamedTensor>& tensors, int64_t max_shard_bytes);

// Calls a function with the tensors as entries of a file; bytes must be fetched as they are
// written.
using WriteEntries =
    std::function<void(std::span<const SafetensorsEntry> entries, const FetchBytes& fetch)>;
void with_entries(const std::vector<NamedTensor>& tensors, const WriteEntries& write);

// Loads the file's values into the tensors. Throws DataError with the differences where names,
// shapes or types differ; nothing is then changed.
void load_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

// Describes how a file differs; empty where the tensor exists in its shape. `theirs`: null where it
// does not exist.
std::string difference_of(const NamedTensor& ours, const TensorView* theirs);
// Throws DataError for a file that holds another network.
[[noreturn]] void refuse_differences(const std::string& what, std::vector<std::string> found);

// Differences that an import accepts.
struct ImportRules {
  // Name prefixes of tensors that a folder may lack, and of those that it may have in addition.
  std::vector<std::string> may_lack = {};
  std::vector<std::string> may_leave = {};
  // Name prefixes of tensors that are no weights: they are not noted.
  std::vector<std::string> ignored = {};
  // A prefix of all names that may be absent in the folder.
  std::string optional_prefix = {};
};

struct Imported {
  int64_t num_taken = 0;
  // Tensors left unchanged, because the folder lacks them, or has them in another shape (with both
  // shapes); and names of the folder that were not used.
  std::vector<std::string> lacked = {};
  std::vector<std::string> differing = {};
  std::vector<std::string> left = {};
};

// Describes what was not loaded, one line each for the user.
std::vector<std::string> notes_of(const Imported& imported);

// Returns the values of a file's tensor as fp32, in memory order.
std::vector<float> read_values(const NamedTensor& named, const TensorView& view);
using ReadValues = std::function<std::vector<float>(const NamedTensor&, const TensorView&)>;

// Loads the folder's values into the tensors, converted to their types. `read` may use more than
// the file's own data. Throws DataError with the differences where names or shapes differ and the
// rules do not allow it; nothing is then changed.
Imported import_tensors(const WeightFolder& folder, const std::vector<NamedTensor>& tensors,
                        const ImportRules& rules, const ReadValues& read = read_values);

// Returns copies of fp32 tensors in their types in a folder: bf16 and fp16; all others are
// unchanged. The prefix is that of ImportRules.
std::vector<NamedTensor> in_types_of(const WeightFolder& folder, std::vector<NamedTensor> tensors,
                                     const std::string& optional_prefix);

}  // namespace sotto::models
