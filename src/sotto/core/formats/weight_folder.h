// The weights of a folder in Hugging Face's layout: one file or several shards with an index, in
// the safetensors format or in that of torch.save; or those of a `.nemo` archive or of a `.pt`
// file.
//
//   const auto folder = WeightFolder::open("wav2vec2-base");
//   if (const TensorView* weight = folder.find("lm_head.weight")) copy(weight->bytes);
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sotto/core/formats/safetensors.h"
#include "sotto/core/formats/tensor_view.h"
#include "sotto/core/formats/torch_file.h"

namespace sotto {

class WeightFolder {
 public:
  // Opens the first that exists of model.safetensors, model.safetensors.index.json with its shards,
  // pytorch_model.bin, pytorch_model.bin.index.json with its shards. Throws DataError where none
  // exists, where a file is refused, where a shard is missing or lacks a tensor that the index
  // assigns to it, or where two shards have the same tensor. Where `folder` is a `.nemo` archive or
  // a `.pt` file, opens its state dict.
  static WeightFolder open(const std::filesystem::path& folder);

  // Returns the names in alphabetical order.
  std::vector<std::string> names() const;

  // Returns the tensor of that name; nullptr if there is none. It is valid while the folder is
  // open.
  const TensorView* find(std::string_view name) const;

  // Returns the file that holds a tensor, for messages. The tensor must exist.
  const std::filesystem::path& path_of(std::string_view name) const;

  // Returns the folder or archive, for messages.
  const std::filesystem::path& path() const { return path_; }
  // The opened files, without the index.
  const std::vector<std::filesystem::path>& files() const { return files_; }

 private:
  using File = std::variant<SafetensorsFile, TorchFile>;
  struct StoredTensor {
    const TensorView* view = nullptr;
    size_t file = 0;
  };

  WeightFolder() = default;

  void add_file(const std::filesystem::path& path);
  void add_tensors(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::vector<std::filesystem::path> files_;
  std::vector<File> opened_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

struct WeightFolderOptions {
  // Metadata of each file.
  SafetensorsMetadata metadata = {{"format", "pt"}};
  // Maximum bytes of tensors per file; a larger tensor gets its own file. The default of
  // transformers.
  int64_t max_shard_bytes = 5'000'000'000;
  // See write_safetensors().
  FetchBytes fetch = {};
};

// Writes model.safetensors or, if that would be too large, model-00001-of-0000N.safetensors and so
// on with model.safetensors.index.json, named as in transformers. The folder must exist. Neither
// synced nor atomic: write into an AtomicFolder. Throws DataError where it cannot be written.
void write_weight_folder(const std::filesystem::path& folder,
                         std::span<const SafetensorsEntry> entries,
                         const WeightFolderOptions& options = {});

}  // namespace sotto
