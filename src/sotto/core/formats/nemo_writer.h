// Writes `.nemo` archives, see nemo_archive.h.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/formats/safetensors.h"

namespace sotto {

struct NemoContent {
  // The text of model_config.yaml.
  std::string config;
  // Files of the tokenizer: name and content.
  struct Member {
    std::string name;
    std::string content;
  };
  std::vector<Member> members;
  // The state dict.
  std::span<const SafetensorsEntry> weights;
  FetchBytes fetch = {};
};

// Writes an archive that is not compressed: aside, synced, renamed. Equal contents give equal
// bytes. Throws DataError where it cannot be written; an existing file is then unchanged.
void write_nemo_archive(const std::filesystem::path& path, const NemoContent& content);

}  // namespace sotto
