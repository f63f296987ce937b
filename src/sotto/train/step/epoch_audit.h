// The audit of an epoch before it starts: every step is split into its actual micro-batches, and
// the largest of them are dry-run.
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

// Memory requirements of an epoch, known before its first step.
struct EpochAudit {
  Fit fit;
  int64_t num_steps = 0;
  // The step with the largest micro-batch, from 1.
  int64_t worst_step = 0;
  // Maximum over all steps.
  int64_t most_micro_batches = 0;
};

class EpochAuditor {
 public:
  // Number of micro-batches of an epoch that audit() dry-runs per measure (frames, labels and so
  // on): all of them in a small corpus.
  static constexpr size_t kAudited = 64;

  // The dry run uses the run's own network; it and the source must outlive this object.
  EpochAuditor(DryRun& dry, const data::Source& source, const StepBudget& budget);

  // Measures the `count` largest micro-batches by each measure, up to the first that does not fit,
  // which is then the worst.
  EpochAudit measure(const data::EpochOrder& epoch, const StepSettings& settings, size_t count);
  // Measures kAudited of them, and lowers the limits where one would not fit. Throws Infeasible
  // that names the utterances where limits cannot be lowered.
  EpochAudit audit(const data::EpochOrder& epoch, const StepSettings& settings);
  // Returns the `count` steps of an epoch, from 0, that take the most memory among those with the
  // largest micro-batches; worst first.
  std::vector<int64_t> worst_steps(const data::EpochOrder& epoch, const StepSettings& settings,
                                   size_t count);
  // Returns the maximum number of micro-batches per step of the epoch under the limits.
  int64_t most_micro_batches(const data::EpochOrder& epoch, const MicroBatchLimits& limits) const;

 private:
  // One micro-batch of an epoch: number `number` of step `step`.
  struct Candidate {
    int64_t step = 0;
    size_t number = 0;
    int64_t utterances = 0;
    int64_t frames = 0;
    int64_t labels = 0;
    int64_t nodes = 0;
    int64_t segments = 0;
    // Frames if all utterances had the length of the longest: determines the workspace of some
    // attention kernels.
    int64_t padded = 0;
  };
  std::vector<std::vector<int64_t>> split(std::span<const uint32_t> step,
                                          const MicroBatchLimits& limits) const;
  std::vector<data::Example> examples_of(const data::EpochOrder& epoch, const Candidate& candidate,
                                         const MicroBatchLimits& limits) const;
  std::vector<Candidate> candidates_of(const data::EpochOrder& epoch,
                                       const MicroBatchLimits& limits) const;
  // Returns the `count` largest candidates by each measure, optionally at most one per step.
  static std::vector<Candidate> largest_of(std::vector<Candidate> candidates, size_t count,
                                           bool is_one_per_step);
  // Lowers the limit on frames by a twentieth, down to the largest item of the run; from there on
  // the limit on utterances.
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
