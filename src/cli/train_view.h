// What the user sees of a run: the plan, the first step against it, a line every so many steps,
// evaluations. All of it goes to standard error, so that standard output has the result alone.
#pragma once

#include <cstdint>
#include <string>

#include "progress.h"
#include "sotto/train/trainer.h"

namespace sotto::cli {

// Handlers that print; the view must outlive the run.
class TrainView {
 public:
  explicit TrainView(int64_t log_every) : log_every_(log_every), bar_("training") {}

  train::RunEvents events();

 private:
  void show_plan(const train::RunPlan& plan);
  void show_comparison(const train::MemoryComparison& comparison);
  void show_step(const train::StepReport& report);
  void show_evaluation(int64_t step, const train::Evaluation& evaluation);
  void finish_epoch();

  int64_t log_every_;
  Progress bar_;
  // Of the epoch so far.
  int64_t epoch_ = -1;
  int64_t epoch_steps_ = 0;
  double epoch_loss_ = 0.0;
  double epoch_seconds_ = 0.0;
  double epoch_audio_ = 0.0;
};

// "3.20 % (ins 1, del 4, sub 12)"
std::string describe(const train::ErrorCounts& counts);

}  // namespace sotto::cli
