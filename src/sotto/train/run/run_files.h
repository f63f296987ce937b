// The files of a run besides its checkpoints: what is written into runs/NAME, and in which form.
//
//   config.yaml     the configuration that was used
//   metrics.jsonl   one line a step, an evaluation, a restart
//   memory.json     the first step as it was planned and as it was measured
//   limits.json     limits that were learned from running out of memory
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sotto/core/formats/event_message.h"
#include "sotto/core/limits.h"
#include "sotto/device/arena.h"
#include "sotto/train/recognition/evaluation.h"
#include "sotto/train/run/caches.h"
#include "sotto/train/step/recovery.h"
#include "sotto/train/step/run_config.h"
#include "sotto/train/step/run_limits.h"

namespace sotto::train {

struct StepReport;

inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kConfigFile = "config.yaml";

// Clears away what a killed process left in a run's folder: what it had not finished, and
// checkpoints that it had not replaced yet. The caller holds the folder's lock.
void clear_leftovers(const std::filesystem::path& folder);
// Throws DataError where the run could not write its files and checkpoints there.
void check_run_folder(const std::filesystem::path& folder);
// Writes config.yaml.
void write_config_file(const std::filesystem::path& folder, const RunConfig& config);

nlohmann::json step_record(const StepReport& report);
nlohmann::json evaluation_record(int64_t step, const Evaluation& evaluation);
nlohmann::json restart_record(const Restart& restart);
nlohmann::json release_record(int64_t step, const ReleasedCaches& released);

// What TensorBoard shows of them, under the names that it has there.
std::vector<Scalar> step_scalars(const StepReport& report);
std::vector<Scalar> evaluation_scalars(const Evaluation& evaluation);

nlohmann::json counts_json(const decode::ErrorCounts& counts);
nlohmann::json memory_json(const device::MemoryReport& report);
void write_memory_file(const std::filesystem::path& folder, const device::MemoryReport& planned,
                       const device::MemoryReport& measured);

// Written and synced at once, so that a run that is killed right after does not learn it again.
void write_learned_limits(const std::filesystem::path& folder, const MicroBatchLimits& limits,
                          const LimitsBasis& basis);
// No limits where nothing was learned for that basis.
MicroBatchLimits read_learned_limits(const std::filesystem::path& folder, const LimitsBasis& basis);
// What an earlier run in the folder had learned.
void forget_learned_limits(const std::filesystem::path& folder);

}  // namespace sotto::train
