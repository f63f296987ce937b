// Parses one line of a manifest. Independent of LibTorch and of files: takes bytes and returns an
// utterance or a fault.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sotto::data {

// A part of an utterance with its transcript.
struct Segment {
  // Relative to the beginning of the utterance.
  double offset_s = 0.0;
  double duration_s = 0.0;
  std::string text = {};

  double end_s() const { return offset_s + duration_s; }
};

struct Utterance {
  // Line number in the manifest, from 1.
  int64_t line = 0;
  // The path as written in the manifest; Manifest::path_of() returns the one to open.
  std::string file = {};
  // For audio: start of the segment; std::nullopt: the whole file.
  std::optional<double> offset_s = {};
  // For features: rows of the file. All 0 for audio.
  int64_t frame_offset = 0;
  int64_t num_frames = 0;
  int64_t feature_dim = 0;
  double duration_s = 0.0;
  // The transcript, in UTF-8.
  std::string text = {};
  // Empty if the manifest does not specify it.
  std::string speaker = {};
  std::string lang = {};
  // In order, not overlapping; empty if the manifest has none.
  std::vector<Segment> segments = {};
};

struct LineFault {
  std::string found = {};
  std::string expected = {};
  std::string hint = {};
};

// Leaves the line number at 0. Never throws, whatever the bytes are.
std::variant<Utterance, LineFault> parse_manifest_line(std::string_view line);

// Returns "audio", or "features of dimension 13".
std::string source_kind(int64_t feature_dim);

}  // namespace sotto::data
