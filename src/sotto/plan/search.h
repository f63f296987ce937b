// The search for the fastest settings inside a budget, with the arithmetic, the place of the
// optimizer's state and the loss's chunk fixed: what each layer keeps for backward, and how large
// micro-batches are. Dry runs are remembered, so that other budgets cost little more.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "sotto/data/batch/source.h"
#include "sotto/kernels/base/cost.h"
#include "sotto/plan/step_time.h"
#include "sotto/train/step/dry_run.h"
#include "sotto/train/step/epoch_audit.h"
#include "sotto/train/step/fit.h"
#include "sotto/train/step/run_config.h"

namespace sotto::plan {

// One way to run inside the budget.
struct Way {
  // With all that was decided.
  train::RunConfig config;
  // The largest micro-batch and what it takes.
  train::Fit fit;
  // Of a step of median length.
  StepTime time;
  double step_audio_s = 0.0;  // of text, tokens
  int64_t micro_batches = 0;

  // Seconds of audio, or tokens, a second.
  double speed() const { return step_audio_s / time.total_s(); }
};

struct SearchRequest {
  train::RunConfig config;
  models::DataShape shape;
  device::Target target;
  kernels::Rates rates;
  // What is to be found; else it is as the configuration has it.
  bool finds_tier = true;
  bool finds_max_frames = true;
};

// Tiers that can be meant on a device, from the one that keeps most.
std::span<const nn::Tier> tiers_of(const device::Target& target);

class Search {
 public:
  // `typical`: the step of the epoch that times are told for. The source and the epoch must outlive
  // it.
  Search(const SearchRequest& request, const data::Source& source, const data::EpochOrder& epoch,
         int64_t typical);
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // Gradients in bf16 are summed over so many micro-batches at most: a fixed split may have more.
  bool is_possible() const { return !limits_.empty(); }

  // The fastest way; nothing where none fits.
  std::optional<Way> best(const train::StepBudget& budget);
  // The fastest but for what best() may find when it looks at the epoch's own micro-batches.
  std::optional<Way> likely_best(const train::StepBudget& budget);
  // With one tier for all layers, in the largest micro-batches that fit.
  std::optional<Way> best_at(nn::Tier tier, const train::StepBudget& budget);
  // A step takes no less than that, whatever the budget. Of what is possible.
  double least_seconds();

  // The least that any way takes, whatever the budget of the device: in the smallest micro-batches.
  // Nothing where no way is possible.
  std::optional<device::MemoryReport> least(int64_t host_bytes);
  // Whether those are of one item each: gradients in bf16 are not summed over so many.
  bool has_items_alone() const;

 private:
  // Tiers of all layers in one row, from the one that keeps most: at step k * L + j the first j of
  // L layers have tier k + 1, the others tier k. Memory falls along it, and time rises: what a tier
  // saves costs more for each byte than what the one before it saves, so that mixing neighbours is
  // as good as any mix.
  nn::LayerTiers tiers_at(int64_t step) const;
  int64_t num_steps() const;
  std::optional<int64_t> first_tier(size_t limits, int64_t step, const train::StepBudget& budget);
  int64_t first_fitting(size_t limits, int64_t good, const train::StepBudget& budget);

  std::optional<std::pair<size_t, int64_t>> find_best(const train::StepBudget& budget);
  // Whether the epoch's own micro-batches fit too: they are smaller than the largest that can be,
  // and may yet lie less well, or be too many. What they take is remembered.
  bool is_confirmed(size_t limits, int64_t step, const train::StepBudget& budget);
  // With that many micro-batches, and, where there is one, with room on the host.
  int64_t step_of_least(size_t limits, int64_t host_bytes);
  bool fits(size_t limits, int64_t step, const train::StepBudget& budget);
  device::MemoryReport& memory_of(size_t limits, int64_t step);
  struct Timed {
    StepTime time;
    int64_t micro_batches = 0;
  };
  const Timed& time_of_step(size_t limits, int64_t step);
  double seconds_of(size_t limits, int64_t step) {
    return time_of_step(limits, step).time.total_s();
  }
  Way way_of(size_t limits, int64_t step);
  // About as many as the largest step is cut into.
  int64_t num_pieces(const MicroBatchLimits& limits) const;
  train::StepSettings settings(const MicroBatchLimits& limits, const nn::LayerTiers& tier) const;
  // From the largest on: for each number of micro-batches the least that has no more.
  std::vector<MicroBatchLimits> limits_to_try() const;
  // The least that max_frames can be for the step to have so many micro-batches at most.
  int64_t least_frames(MicroBatchLimits limits, int64_t pieces) const;
  std::vector<data::Example> usual_micro_batch(int64_t micro_batches) const;
  // Whether gradients may be summed over so many micro-batches.
  bool may_sum(int64_t micro_batches) const;

  SearchRequest request_;
  const data::Source& source_;
  train::DryRun dry_;
  train::BudgetFit fit_;
  const data::EpochOrder& epoch_;
  train::BudgetFit::LargestStep largest_;
  int64_t most_items_;
  // Of median length, its items from the longest on.
  std::vector<data::Example> step_;
  double step_length_ = 0.0;
  int64_t step_frames_ = 0;
  std::vector<MicroBatchLimits> limits_;
  // By limits and step.
  std::map<std::pair<size_t, int64_t>, device::MemoryReport> memory_;
  std::map<std::pair<size_t, int64_t>, Timed> times_;
  std::set<std::pair<size_t, int64_t>> confirmed_;
};

}  // namespace sotto::plan
