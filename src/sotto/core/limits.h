// Upper limits for the size of a micro-batch: plain numbers that a plan chooses, packing respects,
// and a checkpoint stores.
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
  // Total labels of all utterances.
  int64_t max_labels = kUnlimited;
  // Total nodes of the lattices of all utterances, for a transducer.
  int64_t max_nodes = kUnlimited;
  int64_t max_utterances = kUnlimited;
  // If false, every micro-batch holds max_utterances, in the order of the step and regardless of
  // their lengths; the other limits are ignored.
  bool is_adaptive = true;

  friend bool operator==(const MicroBatchLimits&, const MicroBatchLimits&) = default;
};

// The largest number of frames, labels and lattice nodes of any item in a run.
struct LargestItem {
  int64_t frames = 0;
  int64_t labels = 0;
  int64_t nodes = 0;
};

// Returns the limits, raised where a single item of the run would exceed them.
MicroBatchLimits raised_to(MicroBatchLimits limits, const LargestItem& item);

// Returns the elementwise minimum of two sets of limits.
MicroBatchLimits narrower(const MicroBatchLimits& a, const MicroBatchLimits& b);

// Formats limits: "12000 frames and 8 utterances", "the whole step".
std::string describe(const MicroBatchLimits& limits);

// Returns {"max_frames": 12000, "max_labels": null, "max_utterances": 8, "adaptive": true}; null
// means no limit. "max_nodes" is there only where it limits.
nlohmann::json to_json(const MicroBatchLimits& limits);

// Parses the output of to_json(); a missing key means no limit. Throws DataError for anything but
// an object of integers of at least 1, and true or false, under the keys above.
MicroBatchLimits limits_from_json(const nlohmann::json& json);

}  // namespace sotto
