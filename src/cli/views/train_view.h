// Output of a run for the user: the plan, its comparison with the first step, a line every
// log_every steps, evaluations; on a terminal also a progress bar. All of it goes to standard
// error, so that standard output has only the result, and, except for the bar, to the log file.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/views/progress.h"
#include "sotto/plan/host_choices.h"
#include "sotto/train/run/trainer.h"

namespace sotto::cli {

// Amount of data processed: speech, or text where there are tokens.
struct Amount {
  double audio_seconds = 0.0;
  int64_t num_tokens = 0;
};

// What the progress bar shows after its count of steps.
struct TrainProgress {
  double loss = 0.0;
  double rate = 0.0;
  Amount amount;
  double seconds = 0.0;
  // Device memory in use, and the budget.
  int64_t used_bytes = 0;
  int64_t budget_bytes = 0;
  double seconds_left = 0.0;
};

// Shows the decisions made before a run as a table; with --verbose the full reasons are logged.
void show_reasons(const std::vector<plan::Reason>& reasons);
void log_note(const std::string& text);
// Warns that other processes hold memory of the device, and names them.
void show_shared_device(const device::RunDevice& device);

// Event handlers that print; the view must outlive the run.
class TrainView {
 public:
  explicit TrainView(int64_t log_every) : log_every_(log_every), bar_("training") {}

  train::RunEvents events();
  // Clears the progress bar, so that other output can follow.
  void clear_bar() { bar_.clear(); }

 private:
  void show_plan(const train::RunPlan& plan);
  void show_stage(const train::StageStart& start);
  void show_audit(int64_t epoch, const train::EpochAudit& audit);
  void show_comparison(const train::MemoryComparison& comparison);
  void show_step(const train::StepReport& report);
  void show_evaluation(int64_t step, const train::Evaluation& evaluation);
  void show_release(int64_t step, const train::ReleasedCaches& released);
  void finish_epoch();
  TrainProgress progress_of(const train::StepReport& report) const;

  int64_t log_every_;
  Progress bar_;
  // Totals of the epoch so far.
  int64_t epoch_ = -1;
  int64_t epoch_steps_ = 0;
  double epoch_loss_ = 0.0;
  double epoch_seconds_ = 0.0;
  double epoch_audio_ = 0.0;
  int64_t epoch_tokens_ = 0;
  bool is_text_ = false;
  // About the steps of this process.
  std::chrono::steady_clock::time_point start_ = {};
  int64_t first_step_ = 1;
  int64_t budget_bytes_ = 0;
  int64_t constant_bytes_ = 0;
};

// Formats the error rate with its counts by kind.
std::string describe(const decode::ErrorCounts& counts);
// Formats word and character error rates with the loss, or the perplexity with the loss per token.
std::string describe(const train::Evaluation& evaluation);
// Formats a value of the metric by which evaluations are compared: "3.20 %", "31.20".
std::string metric_text(const train::Evaluation& evaluation, double value);

// Formats the duration of audio, or the number of tokens.
std::string describe(const Amount& amount);
// Formats seconds of audio, or tokens, per second.
std::string describe_speed(const Amount& amount, double seconds);

// Formats as "loss 0.4123 rate 1.9e-03 612 s/s 212/300 MiB 12 min left".
std::string describe(const TrainProgress& progress);

}  // namespace sotto::cli
