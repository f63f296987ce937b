// A manifest: JSON lines in NeMo's convention, one utterance a line.
//
//   {"audio_filepath": "audio/a.flac", "duration": 2.25, "text": "seven", "speaker": "theo"}
//   {"feature_filepath": "train.f16", "frame_offset": 99, "num_frames": 149, "feature_dim": 13,
//    "duration": 1.49, "text": "enter five"}
//
// Relative paths are relative to the manifest's folder. With `offset` (seconds) an utterance is a
// segment of its file; without, the whole file. Keys that are not named here are ignored, blank
// lines too. Text may be empty. A manifest is of one kind: audio, or features of one dimension.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::data {

struct Utterance {
  // Of the manifest, from 1.
  int64_t line = 0;
  // As it is written there; Manifest::path_of() gives the one to open.
  std::string file;
  // Audio: where the segment begins; none: the whole file.
  std::optional<double> offset_s;
  // Features: rows of the file. All 0 for audio.
  int64_t frame_offset = 0;
  int64_t num_frames = 0;
  int64_t feature_dim = 0;
  double duration_s = 0.0;
  // In UTF-8.
  std::string text;
  // Empty where the manifest says nothing.
  std::string speaker;
  std::string lang;
};

class Manifest {
 public:
  // Throws DataError with the line and what was found and expected for a file that is missing, not
  // text or without utterances, and for every line that is not as described above.
  static Manifest read(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<Utterance>& utterances() const { return utterances_; }
  int64_t size() const { return static_cast<int64_t>(utterances_.size()); }
  // Width of stored features; 0 for audio.
  int64_t feature_dim() const { return utterances_.front().feature_dim; }
  // 64 bits of the file's content: another content has another fingerprint, as good as always.
  uint64_t fingerprint() const { return fingerprint_; }

  // The file of an utterance.
  std::filesystem::path path_of(const Utterance& utterance) const;
  // The texts in the order of the lines. They last as long as the manifest.
  std::vector<std::string_view> texts() const;
  // By its place among them.
  const Utterance& at(int64_t utterance) const;

 private:
  std::filesystem::path path_;
  std::vector<Utterance> utterances_;
  uint64_t fingerprint_ = 0;
};

}  // namespace sotto::data
