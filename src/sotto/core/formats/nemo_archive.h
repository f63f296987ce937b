// `.nemo` archives, in which NeMo saves networks: a tar file, sometimes compressed with gzip, of a
// model_config.yaml, a model_weights.ckpt (a state dict) and the files of the tokenizer. Names may
// have a hash before them: 3f0a_tokenizer.model. Nothing is unpacked by name, and nothing in an
// archive is run.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "sotto/core/files/mapped_file.h"
#include "sotto/core/formats/torch_file.h"

namespace sotto {

// Returns whether a path is that of such an archive, by its name; it may be missing. A folder is
// none.
bool is_nemo_file(const std::filesystem::path& path);

// The parts of an archive, in its memory.
struct NemoParts {
  // The text of model_config.yaml.
  std::string_view config;
  // The file of torch.save.
  std::span<const std::byte> weights;
  // All other files, by the name that they have in the archive.
  std::map<std::string, std::span<const std::byte>, std::less<>> others;
};

// Finds the parts of an archive that is not compressed. `path` is for errors. Throws DataError
// where it is broken, lacks a part or has two of a kind, or where a name leaves the archive.
NemoParts find_nemo_parts(std::span<const std::byte> archive, const std::filesystem::path& path);

// Returns the settings of model_config.yaml. Throws DataError where they are not valid YAML.
nlohmann::json nemo_settings(const NemoParts& parts, const std::filesystem::path& path);
// Returns the name of the tokenizer's model in the settings; empty where there is none.
std::string nemo_tokenizer_name(const nlohmann::json& settings);

class NemoArchive {
 public:
  // Opens an archive; a compressed one is unpacked, see gzip.h. Throws DataError.
  static NemoArchive open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  // Whether it had to be unpacked.
  bool was_compressed() const { return was_compressed_; }
  // Valid while this object lives.
  const NemoParts& parts() const { return parts_; }

  // Returns the SentencePiece model of the tokenizer: the file that the settings name, else the
  // only one that ends with ".model". Throws DataError where there is none, or several.
  std::string_view sentence_piece(const std::string& named) const;

  // Returns the state dict; this object is then empty. Throws DataError where it is broken.
  TorchFile take_weights();

 private:
  NemoArchive(std::filesystem::path path, MappedFile file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::filesystem::path path_;
  MappedFile file_;
  NemoParts parts_;
  bool was_compressed_ = false;
};

}  // namespace sotto
