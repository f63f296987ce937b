// Writes manifests: JSON lines with NeMo's keys, always in the same order, durations to the
// microsecond, text in unescaped UTF-8. The file exists only after finish() has returned:
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

// Returns the line of an utterance, without its line end. Throws DataError where a text is not
// UTF-8.
std::string manifest_line(const Utterance& utterance);

// Throws DataError where the path is an existing file that is not a manifest, which would be
// overwritten.
void check_replaces_manifest(const std::filesystem::path& path);

class ManifestWriter {
 public:
  // Creates missing parent folders. Throws DataError, also where the file would replace anything
  // but a manifest.
  explicit ManifestWriter(const std::filesystem::path& path);

  // Adds an utterance. Throws DataError where the disk is full, or a text is not UTF-8.
  void add(const Utterance& utterance);
  // Adds a line of another manifest, without its line end.
  void add_line(std::string_view line);

  int64_t num_lines() const { return num_lines_; }

  // Renames the file to its final name and replaces an existing one. May be called once. Throws
  // DataError, which leaves an existing file in place.
  void finish();

 private:
  void flush();

  AtomicFile file_;
  std::string waiting_;
  int64_t num_lines_ = 0;
};

}  // namespace sotto::data
