// The tensors described by a pickle of torch.save(): names, shapes and the location of their
// values. Independent of the file around the pickle, which holds the values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/formats/pickle_reader.h"
#include "sotto/core/formats/tensor_view.h"

namespace sotto {

// Returns the globals that the pickle of a state dict may name.
std::span<const std::string_view> state_dict_names();

// A contiguous array of values of one type; tensors are views of it.
struct TorchStorage {
  // Python's name: "torch.FloatStorage".
  std::string_view class_name;
  // std::nullopt for unsupported types.
  std::optional<TensorType> type;
  int64_t bytes_per_value = 0;
  int64_t num_values = 0;

  // Returns std::nullopt on overflow.
  std::optional<int64_t> num_bytes() const {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(num_values, bytes_per_value, &bytes)) return std::nullopt;
    return bytes;
  }

  friend bool operator==(const TorchStorage&, const TorchStorage&) = default;
};

// Storages by their key in the file. Keys refer to the memory from which the pickle was read.
using TorchStorages = std::map<std::string_view, TorchStorage>;

// A tensor that consists of the values at offset + sum(i * stride) of its storage.
struct StoredTensor {
  std::string name;
  std::string_view storage_key;
  TensorType type = TensorType::kFloat32;
  int64_t offset = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> stride;
};

// Returns all storages that a pickle names, even if no tensor of the state dict uses them. Throws
// DataError where a description is invalid or where two contradict each other.
TorchStorages read_storages(const Pickle& pickle, const std::filesystem::path& path);

// Returns the tensors of a pickle: of its dict or, if that holds no tensors, of the dict under
// "state_dict", "model_state_dict" or "model". Shapes and strides are checked against the storages:
// every value of a tensor is inside its storage. Throws DataError where there is no such dict, or
// where it holds anything but tensors, a duplicate name, or an impossible tensor.
std::vector<StoredTensor> read_state_dict(const Pickle& pickle, const TorchStorages& storages,
                                          const std::filesystem::path& path);

// Returns the whole numbers of the dict under "dims", in which OpenAI stores the sizes of a Whisper
// beside its state dict; none where there is no such dict.
std::map<std::string, int64_t> read_dims(const Pickle& pickle);

}  // namespace sotto
