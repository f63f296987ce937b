// File names in a manifest: relative to the manifest's folder, so that a corpus can be moved with
// it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "sotto/data/manifest/manifest.h"

namespace sotto::data {

class ManifestPaths {
 public:
  // For manifests in that folder, which need not exist yet; an empty path is the current folder.
  explicit ManifestPaths(const std::filesystem::path& folder);

  // Returns the name in a manifest of the file at `file`, a path relative to the working directory:
  // relative to the folder, with ".." if needed; absolute if the two share only the root.
  std::string name_of(const std::filesystem::path& file);

 private:
  // As written, and with all links resolved.
  std::filesystem::path folder_;
  std::filesystem::path real_folder_;
  // Files usually come folder by folder, and resolving links takes a system call for each component
  // of a path.
  std::filesystem::path last_parent_;
  std::filesystem::path last_real_parent_;
};

// Returns the line of an utterance for a manifest in the folder of `paths`: byte for byte, except
// for a relative file name.
std::string moved_line(const Manifest& manifest, int64_t utterance, ManifestPaths& paths);

// Returns the line of an utterance with another file, the rest byte for byte. `key` is
// audio_filepath or feature_filepath.
std::string with_file(std::string_view line, std::string_view key, const std::string& file);

}  // namespace sotto::data
