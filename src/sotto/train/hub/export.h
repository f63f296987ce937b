// Exports a model as a folder for the Hugging Face Hub (weights, configuration, tokenizer and model
// card), and uploads it; or as a `.nemo` archive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sotto::train {

struct ExportRequest {
  // A checkpoint, a run (its best checkpoint), a Hugging Face folder or a `.nemo` archive.
  std::filesystem::path folder;
  // A folder, or a file whose name ends with .nemo.
  std::filesystem::path out;
  // Maximum size of one weight file.
  int64_t max_shard_bytes = 5'000'000'000;
  // Fields of the model card: repository on the Hub as org/name, and facts only the user knows.
  // Empty fields are omitted.
  std::string repository = {};
  std::vector<std::string> languages = {};
  std::string license = {};
};

// Returns whether an export is a `.nemo` archive. It has no card.
bool is_nemo_export(const std::filesystem::path& out);

// Writes the folder or the archive atomically. An exported checkpoint works with `sotto eval` and
// `transcribe`, without optimizer state or paths of this machine; an exported wav2vec2 model loads
// in transformers. Returns notes for the user, one line each. Throws DataError where the model
// cannot be read or the folder cannot be written, ConfigError where the network is not supported.
std::vector<std::string> export_model(const ExportRequest& request);

// Returns the command that uploads a folder.
std::string push_line(const std::filesystem::path& folder, const std::string& repository);

// Uploads a folder with Hugging Face's program `hf`; returns false where it is not installed.
// Throws DataError with its output where it fails.
bool push_folder(const std::filesystem::path& folder, const std::string& repository);

}  // namespace sotto::train
