// Resuming a run: selects the checkpoint, verifies that it is still the same run, and determines
// its length. The command line and the library both resume through these functions.
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

// Callback for messages to the user, one line each.
using Note = std::function<void(const std::string&)>;

// Merges what --resume (TrainingOptions::resumes in a program) and the key of other tools ask for.
// Throws ConfigError where they contradict each other.
AliasedRequest request_with(const AliasedRequest& named, bool resumes);

// Returns the checkpoint from which a run in the locked folder resumes; none: the run starts from
// scratch. This is the named one, or the latest intact one; where none is left, the latest intact
// one that was set aside, then the best. Each damaged checkpoint is reported in a note. Throws
// DataError where the named one is damaged; ConfigError where a run is to start, or to resume from
// elsewhere, in a folder that holds checkpoints.
std::optional<std::filesystem::path> choose_checkpoint(const FolderLock& lock,
                                                       const AliasedRequest& request,
                                                       const Note& noted);

// Returns the configuration of a resumed run: its own, overridden by the settings given again.
// Individually set parts of the numerics apply only to those numerics. Throws ConfigError.
RunConfig resumed_config(const RunConfig& before, const ConfigNode& named);

// Compares the settings of a resumed run with its earlier ones. Returns a note per difference that
// is allowed: budget, tier, placement, threads, logging, intervals, length of the run, numerics
// that can represent all of its state. Throws ConfigError with all differences that are not:
// network, data, order, schedule.
std::vector<std::string> check_settings(const Checkpoint& checkpoint, const RunConfig& config);

// Maximum number of training data files that are compared.
inline constexpr int64_t kHashedFiles = 1000;

// Returns a hash of the selected items in order.
uint64_t order_fingerprint(const data::Source& source);

// Compare the training data with that of the earlier run: its lines; then the selected items and
// the files they refer to. Throw DataError with the difference where they are not what the run has
// been trained on.
void check_lines(const Checkpoint& before, uint64_t fingerprint, const std::filesystem::path& file);
void check_items(const RunState& before, const data::Source& source);

// Number of updates of a run, and the number that its schedule covers.
struct RunLength {
  int64_t total_steps = 0;
  int64_t schedule_steps = 0;

  friend bool operator==(const RunLength&, const RunLength&) = default;
};

// For a new run both are max_steps, or all of its epochs. A resumed run keeps its schedule: with
// fewer steps it stops early; with more the schedule is extended, and max_steps may then exceed the
// epochs.
RunLength length_of(const RunConfig& config, int64_t steps_per_epoch);
RunLength length_of(const RunConfig& config, int64_t steps_per_epoch, const Checkpoint& before);

// Describes the effect of a changed length on the rate of the remaining steps, in one line; empty
// where there is none. `before`: the previous length of the run.
std::string describe_change(const RunLength& before, const RunLength& now, int64_t next_step,
                            const optim::ScheduleOptions& schedule);

}  // namespace sotto::train
