// Whisper's way through a recording of any length: windows of 30 s, each of which begins where the
// last complete segment of the one before it ended. It knows neither audio nor networks: it is
// given a function that decodes one window. Segments and their times are those of transformers'
// `_retrieve_segment`.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sotto::decode {

struct LongRecordingOptions {
  // Frames of the front end: of the recording, of a window, and between two timestamps.
  int64_t num_frames = 0;
  int64_t window_frames = 3000;
  int64_t frames_per_timestamp = 2;
  double frame_s = 0.01;
  // <|0.00|>. All entries from it on are timestamps.
  int32_t first_timestamp = 0;
  // Whether a window is given the text before it, and up to how many of its last tokens: half of
  // the decoder's positions, less one.
  bool uses_previous_text = false;
  int64_t max_previous_tokens = 223;
};

// A part of a recording that is decoded.
struct RecordingWindow {
  int64_t first_frame = 0;
  // Below window_frames at the end of the recording.
  int64_t num_frames = 0;
  // Tokens before this window; empty: none, and no token that announces them.
  std::span<const int32_t> previous = {};
};

// The time of a token within its window.
struct TokenTime {
  double start_s = 0.0;
  double end_s = 0.0;
};

// What was found in a window.
struct WindowTokens {
  // Text and timestamps, without the end token.
  std::vector<int32_t> tokens = {};
  // One for each token; empty: not known.
  std::vector<TokenTime> times = {};
  // Whether there is nothing to write.
  bool is_silent = false;
  // What was drawn at 0.5 and above is no previous text for the next window.
  double temperature = 0.0;
};

// Tokens of a segment, with the timestamps around them, and times within the recording.
struct SegmentTokens {
  std::vector<int32_t> tokens = {};
  std::vector<TokenTime> times = {};
  double start_s = 0.0;
  double end_s = 0.0;
};

// Returns the segments of a recording in order.
std::vector<SegmentTokens> find_segments(
    const LongRecordingOptions& options,
    const std::function<WindowTokens(const RecordingWindow&)>& decode);

}  // namespace sotto::decode
