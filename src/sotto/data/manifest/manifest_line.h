// One line of a manifest. Knows no LibTorch and no file: bytes in, an utterance or what is wrong
// with them out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sotto::data {

// A part of an utterance with what is said in it.
struct Segment {
  // From the beginning of the utterance.
  double offset_s = 0.0;
  double duration_s = 0.0;
  std::string text = {};

  double end_s() const { return offset_s + duration_s; }
};

struct Utterance {
  // Of the manifest, from 1.
  int64_t line = 0;
  // As it is written there; Manifest::path_of() gives the one to open.
  std::string file = {};
  // Audio: where the segment begins; none: the whole file.
  std::optional<double> offset_s = {};
  // Features: rows of the file. All 0 for audio.
  int64_t frame_offset = 0;
  int64_t num_frames = 0;
  int64_t feature_dim = 0;
  double duration_s = 0.0;
  // In UTF-8.
  std::string text = {};
  // Empty where the manifest says nothing.
  std::string speaker = {};
  std::string lang = {};
  // In their order, not overlapping; empty where the manifest knows none.
  std::vector<Segment> segments = {};
};

struct LineFault {
  std::string found = {};
  std::string expected = {};
  std::string hint = {};
};

// The number of the line is left at 0. Whatever the bytes are, nothing is thrown.
std::variant<Utterance, LineFault> parse_manifest_line(std::string_view line);

// "audio", or "features of dimension 13".
std::string source_kind(int64_t feature_dim);

}  // namespace sotto::data
