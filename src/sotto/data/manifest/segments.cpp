#include "sotto/data/manifest/segments.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sotto/core/error.h"

namespace sotto::data {

std::vector<SegmentRun> join_segments(std::span<const Segment> segments, double max_seconds) {
  std::vector<SegmentRun> runs;
  double begin_s = 0.0;
  for (uint32_t i = 0; i < segments.size(); ++i) {
    if (runs.empty() || segments[i].end_s() - begin_s > max_seconds) {
      runs.push_back({.first = i, .count = 0});
      begin_s = segments[i].offset_s;
    }
    ++runs.back().count;
  }
  return runs;
}

Utterance cut_utterance(const Utterance& utterance, const SegmentRun& run) {
  SOTTO_ASSERT(run.count > 0 && run.first + run.count <= utterance.segments.size(),
               "segments {} to {} of {}", run.first, run.first + run.count,
               utterance.segments.size());
  const auto segments = std::span(utterance.segments).subspan(run.first, run.count);
  const double begin_s = segments.front().offset_s;
  Utterance cut = utterance;
  cut.segments.clear();
  cut.text.clear();
  cut.duration_s = segments.back().end_s() - begin_s;
  if (utterance.feature_dim > 0) {
    const double frames_per_second =
        static_cast<double>(utterance.num_frames) / utterance.duration_s;
    const auto begin = static_cast<int64_t>(std::llround(begin_s * frames_per_second));
    const auto end =
        static_cast<int64_t>(std::llround(segments.back().end_s() * frames_per_second));
    cut.frame_offset = utterance.frame_offset + std::min(begin, utterance.num_frames - 1);
    cut.num_frames = std::clamp<int64_t>(
        end - begin, 1, utterance.frame_offset + utterance.num_frames - cut.frame_offset);
  } else {
    cut.offset_s = utterance.offset_s.value_or(0.0) + begin_s;
  }
  for (const Segment& segment : segments) {
    if (!cut.text.empty() && !segment.text.empty()) cut.text += ' ';
    cut.text += segment.text;
  }
  return cut;
}

}  // namespace sotto::data
