// A manifest: JSON lines in NeMo's convention, one utterance per line.
//
//   {"audio_filepath": "audio/a.flac", "duration": 2.25, "text": "seven", "speaker": "theo"}
//   {"feature_filepath": "train.f16", "frame_offset": 99, "num_frames": 149, "feature_dim": 13,
//    "duration": 1.49, "text": "enter five"}
//
// Relative paths are relative to the manifest's folder. With `offset` (seconds) an utterance is a
// segment of its file; without, the whole file. Unknown keys and blank lines are ignored. Text may
// be empty. All utterances of a manifest are of one kind: audio, or features of one dimension.
//
// Only an index is held in memory (manifest_index.h); a line is read when it is needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/files/input_file.h"
#include "sotto/data/manifest/manifest_index.h"
#include "sotto/data/manifest/manifest_line.h"

namespace sotto::data {

class Manifest {
 public:
  // Opens a manifest. Throws DataError for a file that is missing, not a manifest or without
  // utterances. Lines that do not have the format above are kept as bad_lines() of the index.
  static Manifest read(const std::filesystem::path& path, const IndexOptions& options = {});

  const std::filesystem::path& path() const { return opened_->file.path(); }
  const ManifestIndex& index() const { return opened_->index; }
  int64_t size() const { return index().size(); }
  // Width of stored features; 0 for audio.
  int64_t feature_dim() const { return index().feature_dim(); }
  uint64_t fingerprint() const { return index().fingerprint(); }

  // Returns the file of an utterance.
  std::filesystem::path path_of(const Utterance& utterance) const;
  // Reads an utterance from the file by its index. Thread-safe. Throws DataError where the file has
  // changed since it was opened.
  Utterance at(int64_t utterance) const;
  // Returns the unmodified line of an utterance.
  std::string line_of(int64_t utterance) const;
  // Returns seconds to 7 digits, from the index.
  double duration_s(int64_t utterance) const;

  // Throws the DataError of the first bad line, if there is one.
  void refuse_bad_lines() const;
  // Formats an error: "m.jsonl: line 3: no key 'text'. Expected one."
  DataError error_of(const BadLine& bad, const std::string& more = {}) const;

 private:
  struct Opened {
    InputFile file;
    ManifestIndex index;
  };

  explicit Manifest(std::shared_ptr<const Opened> opened) : opened_(std::move(opened)) {}

  [[noreturn]] void refuse_line(size_t position) const;

  // Shared: copies of a manifest are handles of one open file.
  std::shared_ptr<const Opened> opened_;
};

}  // namespace sotto::data
