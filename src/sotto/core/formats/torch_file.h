// Files of named tensors as written by torch.save(state_dict), for example pytorch_model.bin: a zip
// archive, or before PyTorch 1.6 a sequence of pickles followed by the values. Python treats such
// files as programs. Here they are data: nothing in them is run, and a file that requires more than
// tensors is refused.
//
//   const auto file = TorchFile::open(path);
//   if (const TensorView* weight = file.find("encoder.weight")) copy(weight->bytes);
#pragma once

#include <cstddef>
#include <cstdint>
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

// Whether a path is a file in which OpenAI publishes a Whisper, by its name: `small.pt`.
bool is_openai_file(const std::filesystem::path& path);

// A file mapped into memory for reading: only accessed pages are read, except for tensors whose
// values are not stored in row-major order, which are copied when the file is opened. It must not
// change while it is open.
class TorchFile {
 public:
  // Opens a file. The tensors are those of the saved dict or, if that holds none, of the dict under
  // "state_dict", "model_state_dict" or "model". Throws DataError where the file is missing,
  // truncated, not such a file, holds an unknown type or anything but weights, or where names,
  // shapes and offsets are inconsistent.
  static TorchFile open(const std::filesystem::path& path);
  // Opens one that is a part of a mapped file, such as an archive. `path` is for errors.
  static TorchFile inside(MappedFile file, std::span<const std::byte> part,
                          const std::filesystem::path& path);

  // Returns the names in alphabetical order.
  std::vector<std::string> names() const;

  // Returns the tensor of that name; nullptr if there is none. It is valid while the file is open.
  const TensorView* find(std::string_view name) const;

  // Whole numbers that are stored under "dims" beside the tensors, as OpenAI's checkpoints have
  // them.
  const std::map<std::string, int64_t>& dims() const { return dims_; }

 private:
  explicit TorchFile(MappedFile file) : file_(std::move(file)) {}

  void add(const StoredTensor& tensor, std::span<const std::byte> storage,
           const std::filesystem::path& path);

  MappedFile file_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::map<std::string, int64_t> dims_;
  // Values of tensors that are not stored in row-major order.
  std::vector<std::vector<std::byte>> copies_;
  size_t num_copied_ = 0;
};

}  // namespace sotto
