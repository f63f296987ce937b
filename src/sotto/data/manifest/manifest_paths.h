// How a file is named in a manifest: from the manifest's folder on, so that a corpus can be moved
// with it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "sotto/data/manifest/manifest.h"

namespace sotto::data {

class ManifestPaths {
 public:
  // Of manifests in that folder, which need not be there yet; an empty one is the current.
  explicit ManifestPaths(const std::filesystem::path& folder);

  // What a manifest says of a file that is opened as `file` from where the program runs: relative
  // to the folder, with ".." where needed; absolute where the two share nothing but the root.
  std::string name_of(const std::filesystem::path& file);

 private:
  // As written, and with all links followed.
  std::filesystem::path folder_;
  std::filesystem::path real_folder_;
  // Files come folder by folder; to follow links takes a call for each name of a path.
  std::filesystem::path last_parent_;
  std::filesystem::path last_real_parent_;
};

// The line of an utterance for a manifest in the folder of `paths`: byte for byte, but for the name
// of its file where that is relative.
std::string moved_line(const Manifest& manifest, int64_t utterance, ManifestPaths& paths);

// The line of an utterance with another file, all else byte for byte. `key` is audio_filepath or
// feature_filepath.
std::string with_file(std::string_view line, std::string_view key, const std::string& file);

}  // namespace sotto::data
