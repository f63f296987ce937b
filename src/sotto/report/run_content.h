// What the folder of a run records, in one struct: for tables, charts and pages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sotto::report {

struct RunStep {
  int64_t step = 0;
  double loss = 0.0;
  double rate = 0.0;
  double gradient_norm = 0.0;
  // False where the gradients overflowed.
  bool is_updated = true;
  int64_t num_items = 0;
  int64_t num_micro_batches = 0;
  // Frames of speech, or tokens.
  int64_t num_frames = 0;
  double audio_seconds = 0.0;
  double seconds = 0.0;
  int64_t peak_bytes = 0;
  // Extent of the arena that the step needed: the peak and fragmentation.
  int64_t reserved_bytes = 0;
  // 0 in runs of earlier versions.
  int64_t after_forward_bytes = 0;
  int64_t after_backward_bytes = 0;
};

struct RunEvaluation {
  int64_t step = 0;
  double loss = 0.0;
  double seconds = 0.0;
  // For speech.
  std::optional<double> wer;
  std::optional<double> cer;
  // For text.
  std::optional<double> perplexity;

  std::optional<double> quality() const { return perplexity ? perplexity : wer; }
};

struct RunEvent {
  enum class Kind { kOutOfMemory, kResume, kSkipped, kOverflow, kRelease };

  Kind kind = Kind::kResume;
  int64_t step = 0;
  std::string text;
};

// "out of memory", "resume" and so on.
std::string name_of(RunEvent::Kind kind);

// The beginning of a stage of progressive training.
struct RunStage {
  int64_t stage = 0;  // from 0
  std::string name;
  int64_t num_samples = 0;
  // Its first step, its planned number of steps, and the last step of the run.
  int64_t step = 0;
  int64_t num_steps = 0;
  int64_t total_steps = 0;
  // The step whose weights it began with; 0: those of the beginning of the run.
  int64_t weights_of_step = 0;
};

struct PlannedBytes {
  std::string category;
  int64_t planned = 0;
  int64_t measured = 0;
};

struct StepMoment {
  std::string phase;
  // From 0, as in names of moments; -1: outside of micro-batches.
  int64_t micro_batch = -1;
  std::string name;
  int64_t bytes = 0;
  // One per category of StepMemory::categories; empty in runs of earlier versions.
  std::vector<int64_t> by_category;
};

// memory.json: the first step of the run, or of its last process, as planned and as measured.
struct StepMemory {
  int64_t step = 1;
  int64_t planned_peak = 0;
  int64_t measured_peak = 0;
  int64_t planned_high_water = 0;
  int64_t measured_high_water = 0;
  int64_t planned_host_peak = 0;
  int64_t measured_host_peak = 0;
  std::string peak_moment;
  std::vector<PlannedBytes> at_peak;
  std::vector<std::string> categories;
  std::vector<StepMoment> timeline;
};

struct SettingReason {
  std::string setting;
  std::string value;
  std::string reason;
};

struct NamedSeconds {
  std::string name;
  double seconds = 0.0;
};

struct NamedText {
  std::string name;
  std::string text;
};

// facts.json: what was known before the first step.
struct RunFacts {
  bool is_text = false;
  std::vector<NamedText> environment;
  std::string device;
  std::string model;
  int64_t num_parameters = 0;
  std::string train_data;
  std::string dev_data;
  int64_t num_items = 0;
  double data_seconds = 0.0;
  int64_t num_tokens = 0;
  int64_t num_skipped = 0;
  // Items per padded batch, and the shares of padding in such batches; 0: not known.
  int64_t padding_batch = 0;
  double shuffled_padding = 0.0;
  double sorted_padding = 0.0;
  int64_t budget_bytes = 0;
  int64_t library_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t needed_bytes = 0;
  int64_t total_steps = 0;
  int64_t steps_per_epoch = 0;
  std::vector<SettingReason> reasons;
  // Of a step of median length, as the planner predicts it.
  double step_seconds = 0.0;
  std::vector<NamedSeconds> step_parts;
};

enum class RunState { kComplete, kStopped, kEndedEarly, kRunning, kFailed, kInterrupted };

struct RunContent {
  std::filesystem::path folder;
  std::string name;
  RunState state = RunState::kInterrupted;
  // For kFailed: the message that ended the run.
  std::string error;
  std::vector<RunStep> steps;
  std::vector<RunEvaluation> evaluations;
  // In the order of the steps.
  std::vector<RunEvent> events;
  // In order; empty for a run without stages.
  std::vector<RunStage> stages;
  std::optional<RunFacts> facts;
  std::optional<StepMemory> memory;
  // config.yaml, one entry per setting: "model.layers".
  std::vector<NamedText> settings;
  // limits.json: what the run learned from running out of memory; empty: nothing.
  std::string learned_limits;
  std::vector<int64_t> checkpoints;
  bool has_best_checkpoint = false;
  // Files that were left out, each with the reason.
  std::vector<std::string> problems;

  bool is_text() const;
  int64_t last_step() const { return steps.empty() ? 0 : steps.back().step; }
  // 0: not known. Stages that ended early shorten a run.
  int64_t total_steps() const {
    if (!stages.empty()) return stages.back().total_steps;
    return facts ? facts->total_steps : 0;
  }
  int64_t peak_bytes() const;
  int64_t count(RunEvent::Kind kind) const;
  // The best evaluation; null where there is none.
  const RunEvaluation* best_evaluation() const;
  // Seconds of audio, or tokens, per second of training; 0: not known.
  double speed() const;
  double median_step_seconds() const;
  double training_seconds() const;
  double evaluation_seconds() const;
  // The value of a setting; empty: not known.
  std::string setting(const std::string& key) const;
};

// "complete", "running" and so on.
std::string name_of(RunState state);
// "WER" or "perplexity".
std::string metric_of(const RunContent& run);

}  // namespace sotto::report
