#include "sotto/decode/long_recording.h"

#include <algorithm>

#include "sotto/core/error.h"

namespace sotto::decode {

namespace {

// A text drawn at this temperature or above is not trusted as previous text.
constexpr double kUntrusted = 0.5;

// The tokens of a window, divided into segments.
class DividedWindow {
 public:
  DividedWindow(const LongRecordingOptions& options, const RecordingWindow& window,
                const WindowTokens& found)
      : options_(options), window_(window), found_(found), advance_(window.num_frames) {
    const std::vector<int32_t>& tokens = found.tokens;
    if (tokens.empty()) return;
    // A segment begins where a timestamp follows another one.
    std::vector<size_t> begins = {0};
    for (size_t i = 1; i < tokens.size(); ++i)
      if (is_timestamp(tokens[i - 1]) && is_timestamp(tokens[i])) begins.push_back(i);
    if (begins.size() == 1) {
      add_whole();
      return;
    }
    // A single timestamp at the end: no speech follows it.
    const bool is_complete =
        is_timestamp(tokens.back()) && !is_timestamp(tokens[tokens.size() - 2]);
    for (size_t i = 0; i + 1 < begins.size(); ++i) add(begins[i], begins[i + 1]);
    if (is_complete) {
      add(begins.back(), tokens.size());
      return;
    }
    // What follows the last complete segment is cut off by the window's end: it is decoded again.
    const int64_t spoken = frames_at(tokens[begins.back() - 1]);
    if (spoken > 0) advance_ = spoken;
  }

  std::vector<SegmentTokens> segments() const { return segments_; }
  // Frames from the beginning of this window to that of the next.
  int64_t advance() const { return advance_; }

 private:
  bool is_timestamp(int32_t token) const { return token >= options_.first_timestamp; }
  int64_t frames_at(int32_t timestamp) const {
    return (timestamp - options_.first_timestamp) * options_.frames_per_timestamp;
  }
  double seconds_at(int64_t frames) const {
    return static_cast<double>(window_.first_frame + frames) * options_.frame_s;
  }

  // Adds the segment of the tokens from `begin` to `end`, which timestamps surround.
  void add(size_t begin, size_t end) {
    add(begin, end, frames_at(found_.tokens[begin]), frames_at(found_.tokens[end - 1]));
  }

  void add(size_t begin, size_t end, int64_t first_frame, int64_t end_frame) {
    const auto part = [&](const auto& all) {
      return std::vector(all.begin() + static_cast<std::ptrdiff_t>(begin),
                         all.begin() + static_cast<std::ptrdiff_t>(end));
    };
    SegmentTokens segment{.tokens = part(found_.tokens),
                          .start_s = seconds_at(first_frame),
                          .end_s = seconds_at(end_frame)};
    if (!found_.times.empty()) segment.times = part(found_.times);
    for (TokenTime& time : segment.times) {
      time.start_s += seconds_at(0);
      time.end_s += seconds_at(0);
    }
    segments_.push_back(std::move(segment));
  }

  // Adds all tokens as one segment, up to the last timestamp among them.
  void add_whole() {
    int64_t end_frame = window_.num_frames;
    const auto last = std::find_if(found_.tokens.rbegin(), found_.tokens.rend(),
                                   [&](int32_t token) { return is_timestamp(token); });
    if (last != found_.tokens.rend() && *last != options_.first_timestamp)
      end_frame = frames_at(*last);
    add(0, found_.tokens.size(), 0, end_frame);
  }

  const LongRecordingOptions& options_;
  const RecordingWindow& window_;
  const WindowTokens& found_;
  std::vector<SegmentTokens> segments_;
  int64_t advance_;
};

}  // namespace

std::vector<SegmentTokens> find_segments(
    const LongRecordingOptions& options,
    const std::function<WindowTokens(const RecordingWindow&)>& decode) {
  SOTTO_ASSERT(options.window_frames > 0 && options.frames_per_timestamp > 0,
               "windows of {} frames, timestamps of {}", options.window_frames,
               options.frames_per_timestamp);
  std::vector<SegmentTokens> segments;
  std::vector<int32_t> previous;  // all tokens so far
  bool is_trusted = options.uses_previous_text;
  for (int64_t first = 0; first < options.num_frames;) {
    RecordingWindow window{
        .first_frame = first,
        .num_frames = std::min(options.window_frames, options.num_frames - first)};
    if (is_trusted) {
      const auto count =
          std::min(previous.size(), static_cast<size_t>(options.max_previous_tokens));
      window.previous = std::span(previous).last(count);
    }
    const WindowTokens found = decode(window);
    SOTTO_ASSERT(found.times.empty() || found.times.size() == found.tokens.size(),
                 "{} times of {} tokens", found.times.size(), found.tokens.size());
    is_trusted = options.uses_previous_text && found.temperature < kUntrusted;
    if (found.is_silent) {
      first += window.num_frames;
      continue;
    }
    const DividedWindow divided(options, window, found);
    for (SegmentTokens& segment : divided.segments()) {
      previous.insert(previous.end(), segment.tokens.begin(), segment.tokens.end());
      segments.push_back(std::move(segment));
    }
    first += divided.advance();
  }
  return segments;
}

}  // namespace sotto::decode
