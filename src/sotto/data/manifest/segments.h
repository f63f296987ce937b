// Cuts a long utterance at the segments of its manifest. Independent of LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/data/manifest/manifest_line.h"

namespace sotto::data {

// Consecutive segments of an utterance.
struct SegmentRun {
  uint32_t first = 0;
  uint32_t count = 0;
};

// Returns all segments in order, in the fewest runs of at most max_seconds from the beginning of
// the first to the end of the last, including the pauses between them. A longer segment is a run by
// itself.
std::vector<SegmentRun> join_segments(std::span<const Segment> segments, double max_seconds);

// Returns the part of the utterance in the run: its audio or frames from the run's beginning to its
// end, and its texts separated by spaces.
Utterance cut_utterance(const Utterance& utterance, const SegmentRun& run);

}  // namespace sotto::data
