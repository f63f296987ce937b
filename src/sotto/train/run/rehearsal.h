// Real steps that verify memory use before a run: the worst of its first epoch, and the largest
// batch, found by trial. Nothing is written or kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sotto/data/batch/sampler.h"
#include "sotto/data/batch/source.h"
#include "sotto/device/arena.h"
#include "sotto/device/run_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/train/step/dry_run.h"
#include "sotto/train/step/fit.h"
#include "sotto/train/step/run_data.h"

namespace sotto::train {

class Rehearsal {
 public:
  // Sets up as a run of this configuration would. Throws ConfigError and DataError as the run
  // would.
  Rehearsal(RunConfig config, const device::RunDevice& device, int64_t budget_bytes);
  ~Rehearsal();
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

  int64_t arena_bytes() const { return budget_.bytes; }
  int64_t constant_bytes() const { return budget_.constant_bytes; }
  int64_t steps_per_epoch() const { return epoch_.num_steps(); }

  struct Step {
    // Number of the step in the first epoch, from 1.
    int64_t number = 0;
    int64_t num_utterances = 0;
    int64_t num_micro_batches = 0;
    double audio_seconds = 0.0;
    device::MemoryReport planned;
    device::MemoryReport measured;
    // Memory that the device reports for this process; 0 on the CPU.
    int64_t shown_bytes = 0;
    double seconds = 0.0;
  };

  // Runs the steps whose micro-batches take the most memory, worst first.
  std::vector<Step> run_worst(int64_t num_steps, const std::function<void(const Step&)>& on_step);

  struct Trial {
    int64_t count = 0;
    bool fits = false;
    // Valid where it fits.
    int64_t peak = 0;
    int64_t high_water = 0;
  };
  struct LargestBatch {
    // Largest number of copies of the data's longest item in one micro-batch.
    int64_t item_frames = 0;
    int64_t tried = 0;
    int64_t predicted = 0;
    std::vector<Trial> trials;
  };

  // Doubles until memory runs out, then bisects; the prediction uses dry runs alone.
  LargestBatch find_largest(const std::function<void(const Trial&)>& on_trial);

  // Returns the time of a step with this many copies of the longest item in one micro-batch: the
  // median of several.
  double time_copies(int64_t count);

 private:
  StepSettings settings() const;
  std::vector<data::Example> load(int64_t step) const;
  std::vector<data::Example> copies_of_longest(int64_t count) const;
  bool fits_really(int64_t count, LargestBatch& largest,
                   const std::function<void(const Trial&)>& on_trial);

  RunConfig config_;
  device::RunDevice device_;
  std::unique_ptr<RunData> data_;
  StepBudget budget_;
  std::unique_ptr<DryRun> dry_;
  std::shared_ptr<data::Source> source_;
  data::EpochOrder epoch_;
  MicroBatchLimits limits_;
  std::shared_ptr<device::Arena> arena_;
  std::unique_ptr<device::ArenaGuard> guard_;
  std::unique_ptr<Learner> learner_;
};

}  // namespace sotto::train
