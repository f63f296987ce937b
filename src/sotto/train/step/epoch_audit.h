// The audit of an epoch before it starts: every step is laid out as it will be, and the largest
// micro-batches are dry-run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/core/limits.h"
#include "sotto/data/batch/sampler.h"
#include "sotto/data/batch/source.h"
#include "sotto/train/step/dry_run.h"
#include "sotto/train/step/fit.h"
#include "sotto/train/step/step_budget.h"

namespace sotto::train {

// What an epoch will take, known before its first step.
struct EpochAudit {
  Fit fit;
  int64_t num_steps = 0;
  // The one with the largest micro-batch, from 1.
  int64_t worst_step = 0;
  // Of any step.
  int64_t most_micro_batches = 0;
};

class EpochAuditor {
 public:
  // The dry run is of the run's own network; it and the source must outlive this.
  EpochAuditor(DryRun& dry, const data::Source& source, const StepBudget& budget);

  // Of the largest micro-batches, so many by each measure, up to the first that does not fit: that
  // is the worst then.
  EpochAudit measure(const data::EpochOrder& epoch, const StepSettings& settings, size_t count);
  // Of more of them, with limits lowered where one would not fit. Throws Infeasible that names the
  // utterances where limits cannot be lowered.
  EpochAudit audit(const data::EpochOrder& epoch, const StepSettings& settings);
  // So many steps of an epoch, from 0, that take most, of those with the largest micro-batches; the
  // worst first.
  std::vector<int64_t> worst_steps(const data::EpochOrder& epoch, const StepSettings& settings,
                                   size_t count);
  // The most micro-batches that a step of the epoch has under the limits.
  int64_t most_micro_batches(const data::EpochOrder& epoch, const MicroBatchLimits& limits) const;

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
  // Frames by a twentieth, down to the largest item of the run; there, utterances.
  static MicroBatchLimits lower(MicroBatchLimits limits, const Candidate& worst,
                                const LargestItem& item);
  struct Worst {
    Candidate candidate;
    device::MemoryReport report;
    int64_t most_micro_batches = 0;
  };
  Worst find_worst(const data::EpochOrder& epoch, const StepSettings& settings, size_t count,
                   bool stops_at_breach);
  static EpochAudit audit_of(const data::EpochOrder& epoch, const MicroBatchLimits& limits,
                             const Worst& worst);
  [[noreturn]] void refuse_step(const data::EpochOrder& epoch, const Candidate& candidate,
                                const MicroBatchLimits& limits, const device::MemoryReport& needed);

  DryRun& dry_;
  const data::Source& source_;
  StepBudget budget_;
};

}  // namespace sotto::train
