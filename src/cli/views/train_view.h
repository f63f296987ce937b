// What the user sees of a run: the plan, the first step against it, a line every so many steps,
// evaluations; on a terminal also a bar. All of it goes to standard error, so that standard output
// has the result alone, and, but for the bar, into the log that is kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/views/progress.h"
#include "sotto/plan/host_choices.h"
#include "sotto/train/run/trainer.h"

namespace sotto::cli {

// How much was worked through: speech, or text where there are tokens.
struct Amount {
  double audio_seconds = 0.0;
  int64_t num_tokens = 0;
};

// What the bar says behind its count of steps.
struct TrainProgress {
  double loss = 0.0;
  double rate = 0.0;
  Amount amount;
  double seconds = 0.0;
  // Of the device, against the budget.
  int64_t used_bytes = 0;
  int64_t budget_bytes = 0;
  double seconds_left = 0.0;
};

// What was decided before a run: a table; with --verbose whole reasons too, in the log.
void show_reasons(const std::vector<plan::Reason>& reasons);
void log_note(const std::string& text);

// Handlers that print; the view must outlive the run.
class TrainView {
 public:
  explicit TrainView(int64_t log_every) : log_every_(log_every), bar_("training") {}

  train::RunEvents events();

 private:
  void show_plan(const train::RunPlan& plan);
  void show_audit(int64_t epoch, const train::EpochAudit& audit);
  void show_comparison(const train::MemoryComparison& comparison);
  void show_step(const train::StepReport& report);
  void show_evaluation(int64_t step, const train::Evaluation& evaluation);
  void show_release(int64_t step, const train::ReleasedCaches& released);
  void finish_epoch();
  TrainProgress progress_of(const train::StepReport& report) const;

  int64_t log_every_;
  Progress bar_;
  // Of the epoch so far.
  int64_t epoch_ = -1;
  int64_t epoch_steps_ = 0;
  double epoch_loss_ = 0.0;
  double epoch_seconds_ = 0.0;
  double epoch_audio_ = 0.0;
  int64_t epoch_tokens_ = 0;
  bool is_text_ = false;
  // Of this process's steps.
  std::chrono::steady_clock::time_point start_ = {};
  int64_t first_step_ = 1;
  int64_t budget_bytes_ = 0;
  int64_t constant_bytes_ = 0;
};

// "3.20 % (ins 1, del 4, sub 12)"
std::string describe(const decode::ErrorCounts& counts);
// "WER 3.20 % (ins ...), CER 1.10 %, loss 0.4", "perplexity 31.2 (3.44 a token)"
std::string describe(const train::Evaluation& evaluation);
// A value of what such evaluations are compared by: "3.20 %", "31.2".
std::string metric_text(const train::Evaluation& evaluation, double value);

// "2 h 5 min of audio", "1.2 million tokens"
std::string describe(const Amount& amount);
// "310 seconds of audio a second", "5200 tokens a second"
std::string describe_speed(const Amount& amount, double seconds);

// "loss 0.4123 rate 1.9e-03 612 s/s 212/300 MiB 12 min left"
std::string describe(const TrainProgress& progress);

}  // namespace sotto::cli
