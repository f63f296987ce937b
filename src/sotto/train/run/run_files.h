// Files in the folder of a run, runs/NAME, other than its checkpoints, and their formats.
//
//   config.yaml     the configuration that was used
//   metrics.jsonl   one line per step, evaluation and restart
//   memory.json     the first step as planned and as measured
//   limits.json     limits learned from running out of memory
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sotto/core/formats/event_message.h"
#include "sotto/core/limits.h"
#include "sotto/data/batch/source.h"
#include "sotto/device/arena.h"
#include "sotto/train/recognition/evaluation.h"
#include "sotto/train/run/caches.h"
#include "sotto/train/run/memory_comparison.h"
#include "sotto/train/step/recovery.h"
#include "sotto/train/step/run_config.h"
#include "sotto/train/step/run_limits.h"

namespace sotto::train {

struct StageStart;
struct StepReport;

inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kConfigFile = "config.yaml";

// Removes what a killed process left in a run's folder: unfinished files, and checkpoints that were
// being replaced. The caller holds the folder's lock.
void clear_leftovers(const std::filesystem::path& folder);
// Throws DataError where the run could not write its files and checkpoints there.
void check_run_folder(const std::filesystem::path& folder);
// Writes config.yaml.
void write_config_file(const std::filesystem::path& folder, const RunConfig& config);

nlohmann::json step_record(const StepReport& report);
nlohmann::json evaluation_record(int64_t step, const Evaluation& evaluation);
nlohmann::json stage_record(const StageStart& start);
nlohmann::json restart_record(const Restart& restart);
nlohmann::json resume_record(int64_t step);
nlohmann::json skipped_record(int64_t step, const data::SkippedUtterance& skipped);
nlohmann::json release_record(int64_t step, const ReleasedCaches& released);

// Values for TensorBoard, under their names there.
std::vector<Scalar> step_scalars(const StepReport& report);
std::vector<Scalar> evaluation_scalars(const Evaluation& evaluation);

nlohmann::json counts_json(const decode::ErrorCounts& counts);
nlohmann::json memory_json(const device::MemoryReport& report);
// `step`: the first of this process, which was compared.
void write_memory_file(const std::filesystem::path& folder, int64_t step,
                       const MemoryComparison& comparison);

// Writes the limits and syncs at once, so that a run killed right after does not learn them again.
void write_learned_limits(const std::filesystem::path& folder, const MicroBatchLimits& limits,
                          const LimitsBasis& basis);
// Returns unlimited limits where nothing was learned for that basis.
MicroBatchLimits read_learned_limits(const std::filesystem::path& folder, const LimitsBasis& basis);
// Removes the limits that an earlier run in the folder learned.
void forget_learned_limits(const std::filesystem::path& folder);

}  // namespace sotto::train
