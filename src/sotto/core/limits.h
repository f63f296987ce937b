// How large a micro-batch may become: plain numbers that a plan decides, packing keeps to, and a
// checkpoint remembers.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace sotto {

struct MicroBatchLimits {
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  // Rows on the time axis of the pack, as the packer's caller counts them.
  int64_t max_frames = kUnlimited;
  // Labels of all its utterances together.
  int64_t max_labels = kUnlimited;
  int64_t max_utterances = kUnlimited;
  // False: max_utterances in each, in the order of the step and whatever their lengths are; the
  // other limits do not count.
  bool is_adaptive = true;

  friend bool operator==(const MicroBatchLimits&, const MicroBatchLimits&) = default;
};

// The most frames and the most labels that any item of a run has.
struct LargestItem {
  int64_t frames = 0;
  int64_t labels = 0;
};

// The limits, raised where an item of the run alone would exceed them.
MicroBatchLimits raised_to(MicroBatchLimits limits, const LargestItem& item);

// The smaller of both in each respect.
MicroBatchLimits narrower(const MicroBatchLimits& a, const MicroBatchLimits& b);

// "12000 frames and 8 utterances"; "the whole step".
std::string describe(const MicroBatchLimits& limits);

// {"max_frames": 12000, "max_labels": null, "max_utterances": 8, "adaptive": true}; null: no limit.
nlohmann::json to_json(const MicroBatchLimits& limits);

// What to_json() wrote; a missing key is no limit. Throws DataError for anything but an object of
// whole numbers of at least 1, and true or false, under the keys above.
MicroBatchLimits limits_from_json(const nlohmann::json& json);

}  // namespace sotto
