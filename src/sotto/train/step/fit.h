// From a budget to limits of micro-batches, by dry runs of the worst that can come. Nothing is
// estimated by a formula.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/core/limits.h"
#include "sotto/data/batch/sampler.h"
#include "sotto/data/batch/source.h"
#include "sotto/device/arena.h"
#include "sotto/train/step/dry_run.h"
#include "sotto/train/step/step_budget.h"

namespace sotto::train {

struct Fit {
  MicroBatchLimits limits;
  // Of the worst micro-batch under them, with everything that is there besides it.
  device::MemoryReport worst;
};

class BudgetFit {
 public:
  // The dry run is of the run's own network; it and the source must outlive this.
  BudgetFit(DryRun& dry, const data::Source& source, const StepBudget& budget);

  // Limits under which every step of `batch` fits into the budget, within those of the settings.
  // Throws Infeasible where the longest utterance does not fit alone, or not as many as each
  // micro-batch is to have; the message names the smallest budget that would do.
  Fit find_limits(const data::EffectiveBatch& batch, const StepSettings& settings);

  // What the largest micro-batch of such steps takes under the limits of the settings; it need not
  // fit.
  device::MemoryReport worst_under(const data::EffectiveBatch& batch, const StepSettings& settings);
  // Frames of a step as large in every respect as one can be, and of its longest item.
  struct LargestStep {
    int64_t frames = 0;
    int64_t longest = 0;
  };
  LargestStep measure_largest(const data::EffectiveBatch& batch);
  // Most items that a step can have.
  int64_t most_items(const data::EffectiveBatch& batch);
  // Seconds of the longest utterance that fits alone, as Source::lengths() has them; 0 where none
  // does. `known_s`: a length that is known to fit, below which nothing is looked at.
  double longest_fitting_s(const StepSettings& settings, double known_s = 0.0);

 private:
  void sort_sizes();
  // As large in every respect as a step can be: the i-th longest has the i-th most labels and
  // segments.
  std::vector<data::Example> largest_step(const data::EffectiveBatch& batch);
  // The part of it that limits allow in one micro-batch.
  std::vector<data::Example> largest_batch(const data::EffectiveBatch& batch,
                                           const MicroBatchLimits& limits);
  [[noreturn]] void refuse(const std::vector<data::Example>& least,
                           const device::MemoryReport& needed, const StepSettings& settings);
  // What to try where the budget of the device is too small.
  std::string hint_for(const std::vector<data::Example>& least, int64_t needed_bytes,
                       const StepSettings& settings);

  DryRun& dry_;
  const data::Source& source_;
  StepBudget budget_;
  // Of all items, each measure for itself from the largest on; empty until they are needed.
  std::vector<data::ExampleSize> sorted_sizes_;
  std::vector<float> sorted_lengths_;
};

// Finds the most frames and the most labels that any item of the source may have.
LargestItem find_largest_item(const models::Model& model, const data::Source& source);

// Utterances that an evaluation loads at once.
inline constexpr int64_t kLoadedAtOnce = 64;

// Limits for recognising the items, at most `most`; the dry run may be of either purpose.
// Throws Infeasible where the longest does not fit into the budget alone.
Fit fit_recognition(DryRun& dry, const data::Source& source, const StepBudget& budget,
                    const MicroBatchLimits& most = {});

}  // namespace sotto::train
