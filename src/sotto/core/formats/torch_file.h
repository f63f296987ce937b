// Files of named tensors as torch.save(state_dict) writes them, pytorch_model.bin for one: a zip
// archive, or before PyTorch 1.6 a row of pickles with the values behind them. Such files are
// programs for Python. Here they are data: nothing in them is run, and one that asks for more than
// tensors is refused.
//
//   const auto file = TorchFile::open(path);
//   if (const TensorView* weight = file.find("encoder.weight")) copy(weight->bytes);
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/files/mapped_file.h"
#include "sotto/core/formats/tensor_view.h"

namespace sotto {

struct StoredTensor;

// A file opened for reading, mapped into memory: only what is looked at is read, but for tensors
// whose values do not lie in row order, which are copied when it is opened. It must not change
// while it is open.
class TorchFile {
 public:
  // The tensors are those of the dict that was saved or, where that holds none, of the dict below
  // "state_dict", "model_state_dict" or "model". Throws DataError where the file is missing, cut
  // short, no such file, holds a type not known here or anything that is no weight, or where names,
  // shapes and places do not fit each other.
  static TorchFile open(const std::filesystem::path& path);

  // In the order of the alphabet.
  std::vector<std::string> names() const;

  // The tensor of that name, nullptr where there is none. It lasts as long as the file is open.
  const TensorView* find(std::string_view name) const;

 private:
  explicit TorchFile(MappedFile file) : file_(std::move(file)) {}

  void add(const StoredTensor& tensor, std::span<const std::byte> storage,
           const std::filesystem::path& path);

  MappedFile file_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  // Values of tensors that lie in the file in another order.
  std::vector<std::vector<std::byte>> copies_;
  size_t num_copied_ = 0;
};

}  // namespace sotto
