// What a pickle of torch.save() says of its tensors: names, shapes and where their values are
// stored. It knows nothing of the file around the pickle: the values themselves are elsewhere.
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

// The globals that the pickle of a state dict may name.
std::span<const std::string_view> state_dict_names();

// Values of one type one behind the other; tensors are views of them.
struct TorchStorage {
  // As Python names it: "torch.FloatStorage".
  std::string_view class_name;
  // Nothing for types that we do not have.
  std::optional<TensorType> type;
  int64_t bytes_a_value = 0;
  int64_t num_values = 0;

  // Nothing where they are more than can be counted.
  std::optional<int64_t> num_bytes() const {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(num_values, bytes_a_value, &bytes)) return std::nullopt;
    return bytes;
  }

  friend bool operator==(const TorchStorage&, const TorchStorage&) = default;
};

// Storages by their key in the file. Keys lie in the memory that the pickle was read from.
using TorchStorages = std::map<std::string_view, TorchStorage>;

// A tensor of values offset + sum(i * stride) of its storage.
struct StoredTensor {
  std::string name;
  std::string_view storage_key;
  TensorType type = TensorType::kFloat32;
  int64_t offset = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> stride;
};

// All storages that a pickle names, whether a tensor of the state dict uses them or not. Throws
// DataError where one is described wrongly or in two ways.
TorchStorages read_storages(const Pickle& pickle, const std::filesystem::path& path);

// The tensors of a pickle: of the dict that it is or, where that holds no tensors, of the one below
// "state_dict", "model_state_dict" or "model". Shapes and strides are checked against the storages:
// each value of a tensor lies in its storage. Throws DataError where there is no such dict, where
// it holds anything but tensors, a name twice, or a tensor that is impossible.
std::vector<StoredTensor> read_state_dict(const Pickle& pickle, const TorchStorages& storages,
                                          const std::filesystem::path& path);

}  // namespace sotto
