// From a budget to limits of micro-batches, by dry runs of the worst that can come; and the audit
// of an epoch before it starts. Nothing is estimated by a formula.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sotto/core/limits.h"
#include "sotto/data/sampler.h"
#include "sotto/data/source.h"
#include "sotto/device/arena.h"
#include "sotto/train/dry_run.h"
#include "sotto/train/step_budget.h"

namespace sotto::train {

struct Fit {
  MicroBatchLimits limits;
  // Of the worst micro-batch under them, with everything that is there besides it.
  device::MemoryReport worst;
};

// What an epoch will take, known before its first step.
struct EpochAudit {
  Fit fit;
  int64_t num_steps = 0;
  // The one with the largest micro-batch, from 1.
  int64_t worst_step = 0;
  // Of any step.
  int64_t most_micro_batches = 0;
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
  bool fits(const device::MemoryReport& report) const {
    return report.high_water <= budget_.bytes && report.host_peak <= budget_.host_bytes;
  }

  // Seconds of the longest utterance that fits alone, as Source::lengths() has them; 0 where none
  // does.
  double longest_fitting_s(const StepSettings& settings);

  // Lays out every step of an epoch as it will be and dry-runs the largest micro-batches, so many
  // by each measure; they need not fit.
  EpochAudit measure(const data::EpochOrder& epoch, const StepSettings& settings, size_t count);
  // The same, with limits lowered where one would not fit. Throws Infeasible that names the
  // utterances where limits cannot be lowered.
  EpochAudit audit(const data::EpochOrder& epoch, const StepSettings& settings);
  // So many steps of an epoch, from 0, that take most, of those with the largest micro-batches; the
  // worst first.
  std::vector<int64_t> worst_steps(const data::EpochOrder& epoch, const StepSettings& settings,
                                   size_t count);

 private:
  // One micro-batch of an epoch as it will be: the so-many-th of a step.
  struct Candidate {
    int64_t step = 0;
    size_t number = 0;
    int64_t utterances = 0;
    int64_t frames = 0;
    int64_t labels = 0;
    int64_t segments = 0;
    // As if all were as long as the longest: what some attention takes workspace by.
    int64_t padded = 0;
  };
  std::vector<std::vector<int64_t>> split(std::span<const uint32_t> step,
                                          const MicroBatchLimits& limits) const;
  std::vector<data::Example> examples_of(const data::EpochOrder& epoch, const Candidate& candidate,
                                         const MicroBatchLimits& limits) const;
  std::vector<Candidate> candidates_of(const data::EpochOrder& epoch,
                                       const MicroBatchLimits& limits) const;
  // The largest by each measure, so many of each, and where it is said at most one of a step.
  static std::vector<Candidate> largest_of(std::vector<Candidate> candidates, size_t count,
                                           bool is_one_a_step);
  struct Worst {
    Candidate candidate;
    device::MemoryReport report;
    bool all_fit = true;
    int64_t most_micro_batches = 0;
  };
  Worst find_worst(const data::EpochOrder& epoch, const StepSettings& settings, size_t count);
  void sort_sizes();
  // One micro-batch as a step of its own.
  device::MemoryReport run_one(const std::vector<data::Example>& examples,
                               const nn::LayerTiers& tier);
  // As large in every respect as a step can be: the i-th longest has the i-th most labels and
  // segments.
  std::vector<data::Example> largest_step(const data::EffectiveBatch& batch);
  // The part of it that limits allow in one micro-batch.
  std::vector<data::Example> largest_batch(const data::EffectiveBatch& batch,
                                           const MicroBatchLimits& limits);
  [[noreturn]] void refuse_step(const data::EpochOrder& epoch, const Candidate& candidate,
                                const MicroBatchLimits& limits, const device::MemoryReport& needed);
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

// Limits for recognising the items, at most `most`; the dry run may be of either purpose.
// Throws Infeasible where the longest does not fit into the budget alone.
Fit fit_recognition(DryRun& dry, const data::Source& source, const StepBudget& budget,
                    const MicroBatchLimits& most = {});

}  // namespace sotto::train
