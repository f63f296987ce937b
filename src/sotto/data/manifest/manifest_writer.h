// Writes manifests: JSON lines in NeMo's keys, always in the same order, durations to the
// microsecond, text in UTF-8 as it is. The file is there when finish() returns and not before:
//
//   ManifestWriter writer("train.jsonl");
//   writer.add({.file = "audio/a.flac", .duration_s = 2.25, .text = "seven"});
//   writer.finish();
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "sotto/core/files/atomic_folder.h"
#include "sotto/data/manifest/manifest.h"

namespace sotto::data {

// The line of an utterance, without its end. Throws DataError where a text is not UTF-8.
std::string manifest_line(const Utterance& utterance);

// Throws DataError where a file is there that is no manifest: one would take its place.
void check_replaces_manifest(const std::filesystem::path& path);

class ManifestWriter {
 public:
  // Makes the folders above where they are missing. Throws DataError, also where the file would
  // take the place of something else than a manifest.
  explicit ManifestWriter(const std::filesystem::path& path);

  // Throws DataError where there is no room, or a text is not UTF-8.
  void add(const Utterance& utterance);
  // A line as it stands in another manifest, without its end.
  void add_line(std::string_view line);

  int64_t num_lines() const { return num_lines_; }

  // Gives the file its name, in place of one that has it. May be called once. Throws DataError;
  // what was there before is then there still.
  void finish();

 private:
  void flush();

  AtomicFile file_;
  std::string waiting_;
  int64_t num_lines_ = 0;
};

}  // namespace sotto::data
