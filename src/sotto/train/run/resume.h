// Taking up a run: from which checkpoint it goes on, whether it is still the same run, and how long
// it is. The command line and the library resume through these functions alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/config/config_tree.h"
#include "sotto/core/files/folder_lock.h"
#include "sotto/data/batch/source.h"
#include "sotto/train/checkpoint/checkpoint.h"
#include "sotto/train/step/config_aliases.h"

namespace sotto::train {

// Something the user should know, in one line.
using Note = std::function<void(const std::string&)>;

// What was asked for by --resume (in a program, TrainingOptions::resumes) and by the key of other
// tools together. Throws ConfigError where they contradict each other.
AliasedRequest request_with(const AliasedRequest& named, bool resumes);

// The checkpoint that a run in the locked folder goes on from; none: the run begins. That is the
// one that is named, or the newest that is whole; where none is left, the newest whole one that was
// set aside, and then the best. Each that is damaged is named in a note. Throws DataError where the
// one that is named is damaged; ConfigError where a run is to begin, or to go on from elsewhere, in
// a folder that holds checkpoints.
std::optional<std::filesystem::path> choose_checkpoint(const FolderLock& lock,
                                                       const AliasedRequest& request,
                                                       const Note& noted);

// The configuration that a run goes on with: its own, and what is named again laid over it. Parts
// of the numerics that were set by themselves belong to those numerics. Throws ConfigError.
RunConfig resumed_config(const RunConfig& before, const ConfigNode& named);

// Compares the settings with which a run goes on with those that it had. Returns a note for each
// that differs and may: budget, tier, placement, threads, logging, intervals, the length of the
// run, numerics that hold all of its state. Throws ConfigError with all differences that may not
// be: network, data, order, schedule.
std::vector<std::string> check_settings(const Checkpoint& checkpoint, const RunConfig& config);

// Files of the training data that are compared.
inline constexpr int64_t kHashedFiles = 1000;

// Hashes the items that take part, in their order.
uint64_t order_fingerprint(const data::Source& source);

// Compare what of the training data decides a run: its lines; then what takes part of them, and the
// files behind it. Throw DataError, with the difference, where it is not what the run has learned
// from so far.
void check_lines(const Checkpoint& before, uint64_t fingerprint, const std::filesystem::path& file);
void check_items(const RunState& before, const data::Source& source);

// Updates of a run, and those that its schedule is laid out for.
struct RunLength {
  int64_t total_steps = 0;
  int64_t schedule_steps = 0;

  friend bool operator==(const RunLength&, const RunLength&) = default;
};

// For a new run both are max_steps, or all of its epochs. A run that goes on keeps its schedule:
// with fewer steps it stops early; with more the schedule becomes longer, and max_steps may then
// exceed the epochs.
RunLength length_of(const RunConfig& config, int64_t steps_per_epoch);
RunLength length_of(const RunConfig& config, int64_t steps_per_epoch, const Checkpoint& before);

// What another length does to the rate of the steps that come, in one line; empty where it does
// nothing. `before`: the length that the run had.
std::string describe_change(const RunLength& before, const RunLength& now, int64_t next_step,
                            const optim::ScheduleOptions& schedule);

}  // namespace sotto::train
