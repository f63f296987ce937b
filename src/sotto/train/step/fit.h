// Finds the limits of micro-batches for a budget by dry runs of the worst case. Nothing is
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
  // Memory of the worst micro-batch under these limits, including everything else that is
  // allocated.
  device::MemoryReport worst;
};

class BudgetFit {
 public:
  // The dry run uses the run's own network; it and the source must outlive this object.
  BudgetFit(DryRun& dry, const data::Source& source, const StepBudget& budget);

  // Returns limits, within those of the settings, under which every step of `batch` fits into the
  // budget. Throws Infeasible where the longest utterance alone, or the fixed number of utterances
  // per micro-batch, does not fit; the message names the smallest sufficient budget.
  Fit find_limits(const data::EffectiveBatch& batch, const StepSettings& settings);

  // Returns the memory of the largest micro-batch of such steps under the limits of the settings;
  // it need not fit.
  device::MemoryReport worst_under(const data::EffectiveBatch& batch, const StepSettings& settings);
  // Frames of a step that is as large as possible by every measure, and of its longest item.
  struct LargestStep {
    int64_t frames = 0;
    int64_t longest = 0;
  };
  LargestStep measure_largest(const data::EffectiveBatch& batch);
  // Returns the maximum number of items in a step.
  int64_t most_items(const data::EffectiveBatch& batch);
  // Returns the duration in seconds of the longest utterance that fits alone, as in
  // Source::lengths(); 0 where none does. `known_s`: a duration known to fit; shorter ones are not
  // checked.
  double longest_fitting_s(const StepSettings& settings, double known_s = 0.0);

 private:
  void sort_sizes();
  // Builds a step that is as large as possible by every measure: the i-th longest item has the i-th
  // most labels and segments.
  std::vector<data::Example> largest_step(const data::EffectiveBatch& batch);
  // Returns the part of the largest step that the limits allow in one micro-batch.
  std::vector<data::Example> largest_batch(const data::EffectiveBatch& batch,
                                           const MicroBatchLimits& limits);
  [[noreturn]] void refuse(const std::vector<data::Example>& least,
                           const device::MemoryReport& needed, const StepSettings& settings);
  // Returns advice for a device budget that is too small.
  std::string hint_for(const std::vector<data::Example>& least, int64_t needed_bytes,
                       const StepSettings& settings);

  DryRun& dry_;
  const data::Source& source_;
  StepBudget budget_;
  // Sizes of all items, each measure sorted independently in descending order; empty until needed.
  std::vector<data::ExampleSize> sorted_sizes_;
  std::vector<float> sorted_lengths_;
};

// Returns the maximum number of frames and of labels over all items of the source.
LargestItem find_largest_item(const models::Model& model, const data::Source& source);

// Number of utterances that an evaluation loads at once.
inline constexpr int64_t kLoadedAtOnce = 64;

// Returns limits for recognition of the items, at most `most`; the dry run may have either purpose.
// Throws Infeasible where the longest item alone does not fit into the budget.
Fit fit_recognition(DryRun& dry, const data::Source& source, const StepBudget& budget,
                    const MicroBatchLimits& most = {});

}  // namespace sotto::train
