// Ranks the checkpoints of a run by the evaluation after their step, and removes those that a run
// does not keep. The rank comes from the checkpoints alone: there is no list that could be out of
// date after a kill, a full disk or a resumed run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "sotto/train/checkpoint/checkpoint.h"

namespace sotto::train {

struct RankedCheckpoint {
  std::filesystem::path path;
  int64_t step = 0;
  double metric = 0.0;
};

// Lists the checkpoints that were evaluated on the data of that fingerprint, best first; of equally
// good ones the later is first. One whose state cannot be read has no rank. With `stage`: only
// those of that stage.
std::vector<RankedCheckpoint> rank_checkpoints(const std::filesystem::path& run_folder,
                                               uint64_t dev_fingerprint,
                                               std::optional<int64_t> stage = {});
// Returns that of the latest readable checkpoint; 0 without one.
uint64_t dev_fingerprint_of(const std::filesystem::path& run_folder);

// Returns whether the state would be one of the `count` best in the folder; false without a metric.
bool is_among_best_checkpoints(const std::filesystem::path& run_folder, int64_t count,
                               const RunState& state);

// Returns whether no checkpoint of the state's stage is better; false without a metric.
bool is_best_of_stage(const std::filesystem::path& run_folder, const RunState& state);

// Checkpoints that a run keeps; one may be kept for both reasons.
struct KeptCheckpoints {
  int64_t num_newest = 1;
  // Among those evaluated on the same data: after the data has changed, the best of before stay.
  int64_t num_best = 0;
  // Also keeps the best of each stage: the next stage starts with it.
  bool keeps_best_of_stages = false;
};
// Removes all other checkpoints. What cannot be removed stays, and, if any are kept for their
// evaluation, a checkpoint whose state cannot be read: it may be one of the best.
void remove_other_checkpoints(const std::filesystem::path& run_folder, const KeptCheckpoints& kept);

}  // namespace sotto::train
