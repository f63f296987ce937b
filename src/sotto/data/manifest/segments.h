// Cutting a long utterance where its manifest says who said what when. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/data/manifest/manifest_line.h"

namespace sotto::data {

// Neighbouring segments of an utterance.
struct SegmentRun {
  uint32_t first = 0;
  uint32_t count = 0;
};

// All segments in their order, in the fewest runs of at most max_seconds from the beginning of the
// first to the end of the last, pauses between them included. A segment that is longer has a run
// of its own.
std::vector<SegmentRun> join_segments(std::span<const Segment> segments, double max_seconds);

// Of the utterance what lies in the run: its audio or frames from the run's beginning to its end,
// and its texts with a space between them.
Utterance cut_utterance(const Utterance& utterance, const SegmentRun& run);

}  // namespace sotto::data
