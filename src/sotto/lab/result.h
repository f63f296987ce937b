// The result of one experiment, and its two files:
//
//   {dataset}_{experiment}_metrics.json   configuration, quality, times, memory in brief
//   {dataset}_{experiment}_memory.json    memory of every step
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sotto/lab/suite.h"

namespace sotto::lab {

// Bytes of a step: live between forward and backward, after backward before the update, and at the
// peak.
struct StepMemory {
  int64_t after_forward = 0;
  int64_t after_backward = 0;
  int64_t peak = 0;

  friend bool operator==(const StepMemory&, const StepMemory&) = default;
};

// Returns the most of each of all steps.
StepMemory largest_of(const std::vector<StepMemory>& steps);

// The largest batch in one micro-batch within the budget.
struct LargestBatch {
  int64_t tried = 0;
  int64_t predicted = 0;
  // Peak and time of a step with that batch.
  int64_t peak_bytes = 0;
  double seconds = 0.0;
};

struct Result {
  enum class Status { kDone, kDoesNotFit, kFailed };

  std::string suite;
  Suite::Kind kind = Suite::Kind::kTraining;
  std::string dataset;
  std::string name;
  std::string title;
  Status status = Status::kDone;
  // For kDoesNotFit and kFailed: the reason. For kDone: that a setting had no effect, if so.
  std::string note;
  // All settings of the experiment, "key=value"; and those that the planner decided.
  std::vector<std::string> settings;
  std::vector<std::string> decided;
  // The configuration of the network, by key.
  nlohmann::ordered_json model;
  std::string device;
  // The budget; for sizes without one, the smallest that suffices.
  int64_t budget_bytes = 0;
  int64_t seed = 1;
  int64_t num_parameters = 0;
  // Items and tokens of a step; 0 tokens for speech.
  int64_t batch = 0;
  int64_t row_tokens = 0;
  // As in Experiment.
  int64_t micro_batch = 0;
  bool has_smallest_budget = false;

  int64_t num_steps = 0;
  // Mean over the steps, and after the last one on the evaluation data.
  double train_loss = 0.0;
  std::optional<double> dev_loss;
  // For speech.
  std::optional<double> dev_wer;
  double total_seconds = 0.0;
  // Median over the steps after the first.
  double seconds_per_step = 0.0;
  // Standard error of that median, from how much the steps differ.
  double seconds_error = 0.0;
  // Tokens, or seconds of audio, per second of training; 0 if it is not known. The prediction is
  // the planner's, for a step of median length.
  double speed = 0.0;
  double predicted_speed = 0.0;

  // Of all steps, in order; empty without memory profiling.
  std::vector<StepMemory> memory;
  // The most of the first epoch's steps, from dry runs alone, before anything ran; for planned runs
  // an upper bound of all steps; for sizes that were run, of those steps.
  StepMemory predicted;
  std::optional<LargestBatch> largest;

  bool is_done() const { return status == Status::kDone; }
  bool is_text() const { return row_tokens > 0; }
  double train_perplexity() const;
  std::optional<double> dev_perplexity() const;
  // Perplexity, or word error rate; none without evaluation.
  std::optional<double> quality() const { return is_text() ? dev_perplexity() : dev_wer; }
  // The largest measured peak; the predicted one where nothing was measured.
  int64_t peak_bytes() const;
  StepMemory mean_memory() const;
  StepMemory max_memory() const;
};

std::filesystem::path metrics_path(const std::filesystem::path& folder, const Result& result);
std::filesystem::path memory_path(const std::filesystem::path& folder, const Result& result);

// Writes both files; without memory of steps only the first.
void write_result(const std::filesystem::path& folder, const Result& result);

nlohmann::ordered_json metrics_json(const Result& result);

// Reads the metrics file and, if there is one beside it, the memory file. Throws DataError.
Result read_result(const std::filesystem::path& metrics_file);

// Lists the experiments of a folder with their settings, in the order in which they were asked for.
inline constexpr const char* kSuiteFile = "suite.json";
inline constexpr int64_t kSuiteFormatVersion = 1;

// Returns all results in a folder, in the order of suite.json, others first, by the names of their
// files. A file that cannot be read is added to `problems` and left out.
std::vector<Result> read_results(const std::filesystem::path& folder,
                                 std::vector<std::string>& problems);

}  // namespace sotto::lab
