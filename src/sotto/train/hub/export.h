// A model as a folder for the Hugging Face Hub: weights, settings, tokenizer and card; and its
// upload.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sotto::train {

struct ExportRequest {
  // A checkpoint, a run (of which the best is taken), or a folder of Hugging Face.
  std::filesystem::path folder;
  std::filesystem::path out;
  // Of a file of weights.
  int64_t max_shard_bytes = 5'000'000'000;
  // For the card: where the model goes, org/name, and what only the user knows. Empty: not said.
  std::string repository = {};
  std::vector<std::string> languages = {};
  std::string license = {};
};

// Writes the folder: there whole or not at all. Of a checkpoint it is one that `sotto eval` and
// `transcribe` take, without the optimizer's state and without the paths of this machine; of
// wav2vec2 one that transformers loads. Returns what the user should know, each in one line. Throws
// DataError where the model cannot be read or the folder not be written, ConfigError where it is a
// network that there is not here.
std::vector<std::string> export_model(const ExportRequest& request);

// What to type to upload a folder.
std::string push_line(const std::filesystem::path& folder, const std::string& repository);

// Uploads a folder by Hugging Face's program `hf`; false where this machine does not have it.
// Throws DataError with what it said where it fails.
bool push_folder(const std::filesystem::path& folder, const std::string& repository);

}  // namespace sotto::train
