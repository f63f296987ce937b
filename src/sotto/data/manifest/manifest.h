// A manifest: JSON lines in NeMo's convention, one utterance a line.
//
//   {"audio_filepath": "audio/a.flac", "duration": 2.25, "text": "seven", "speaker": "theo"}
//   {"feature_filepath": "train.f16", "frame_offset": 99, "num_frames": 149, "feature_dim": 13,
//    "duration": 1.49, "text": "enter five"}
//
// Relative paths are relative to the manifest's folder. With `offset` (seconds) an utterance is a
// segment of its file; without, the whole file. Keys that are not named here are ignored, blank
// lines too. Text may be empty. A manifest is of one kind: audio, or features of one dimension.
//
// Only an index is held in memory (manifest_index.h); a line is read when it is asked for.
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
  // Throws DataError for a file that is missing, no manifest or without utterances. Lines that are
  // not as described above are kept as bad_lines() of the index.
  static Manifest read(const std::filesystem::path& path, const IndexOptions& options = {});

  const std::filesystem::path& path() const { return opened_->file.path(); }
  const ManifestIndex& index() const { return opened_->index; }
  int64_t size() const { return index().size(); }
  // Width of stored features; 0 for audio.
  int64_t feature_dim() const { return index().feature_dim(); }
  uint64_t fingerprint() const { return index().fingerprint(); }

  // The file of an utterance.
  std::filesystem::path path_of(const Utterance& utterance) const;
  // By its place among the utterances, read from the file. May be called from several threads.
  // Throws DataError where the file has changed since it was opened.
  Utterance at(int64_t utterance) const;
  // Its line as it stands there.
  std::string line_of(int64_t utterance) const;
  // Seconds to 7 digits, from the index.
  double duration_s(int64_t utterance) const;

  // Throws the DataError of the first bad line, where there is one.
  void refuse_bad_lines() const;
  // "m.jsonl: line 3: no key 'text'. Expected one."
  DataError error_of(const BadLine& bad, const std::string& more = {}) const;

 private:
  struct Opened {
    InputFile file;
    ManifestIndex index;
  };

  explicit Manifest(std::shared_ptr<const Opened> opened) : opened_(std::move(opened)) {}

  [[noreturn]] void refuse_line(size_t place) const;

  // Shared: copies of a manifest are handles of one open file.
  std::shared_ptr<const Opened> opened_;
};

}  // namespace sotto::data
