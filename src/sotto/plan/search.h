// The search for the fastest settings inside a budget, with the arithmetic, the place of the
// optimizer's state and the loss's chunk fixed: what each layer keeps for backward, and how large
// micro-batches are. Dry runs are remembered, so that other budgets cost little more.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "sotto/data/batch/sampler.h"
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

// The first epoch of a run, and its step of median length, which times are told for.
struct PlannedEpoch {
  // Throws ConfigError where there is nothing to plan for.
  PlannedEpoch(const train::RunConfig& config, const data::Source& source);

  data::EpochOrder order;
  int64_t median_step = 0;
};

class Search {
 public:
  // The source and the epoch must outlive it.
  Search(const SearchRequest& request, const data::Source& source, const PlannedEpoch& epoch);
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

  struct Least {
    // With the tier that takes it.
    train::RunConfig config;
    device::MemoryReport memory;
  };
  // What takes least, whatever the budget of the device: in the smallest micro-batches. Nothing
  // where no way is possible.
  std::optional<Least> least(int64_t host_bytes);
  // No more than that, and known sooner. Of what is possible.
  device::MemoryReport likely_least(int64_t host_bytes);
  // Whether those are of one item each: gradients in bf16 are not summed over so many.
  bool has_items_alone() const;

 private:
  // Into limits_.
  enum class LimitsIndex : size_t {};
  // One point of the search: how large micro-batches are, and how far down the row of tiers.
  struct Candidate {
    LimitsIndex limits = {};
    int64_t row_step = 0;

    friend auto operator<=>(const Candidate&, const Candidate&) = default;
  };
  struct Timed {
    StepTime time;
    int64_t micro_batches = 0;
  };

  const MicroBatchLimits& limits_at(LimitsIndex index) const {
    return limits_[static_cast<size_t>(index)];
  }
  // Of the smallest micro-batches.
  LimitsIndex last_limits() const { return LimitsIndex{limits_.size() - 1}; }

  // Tiers of all layers in one row, from the one that keeps most: at step k * L + j the first j of
  // L layers have tier k + 1, the others tier k. Memory falls along it, and time rises: what a tier
  // saves costs more for each byte than what the one before it saves, so that mixing neighbours is
  // as good as any mix.
  nn::LayerTiers tiers_at(int64_t row_step) const;
  int64_t num_row_steps() const;
  std::vector<int64_t> marks_in_tier() const;
  std::optional<Candidate> first_tier(const Candidate& from, const train::StepBudget& budget);
  Candidate first_fitting(const Candidate& good, const train::StepBudget& budget);

  std::optional<Candidate> find_best(const train::StepBudget& budget);
  // Whether the epoch's own micro-batches fit too: they are smaller than the largest that can be,
  // and may yet lie less well, or be too many. What they take is remembered.
  bool is_confirmed(const Candidate& candidate, const train::StepBudget& budget);
  // Of those with these limits, the one that takes least, and, where there is one, has room on the
  // host.
  Candidate least_with(LimitsIndex limits, int64_t host_bytes);
  bool fits(const Candidate& candidate, const train::StepBudget& budget);
  device::MemoryReport& memory_of(const Candidate& candidate);
  const Timed& time_of_step(const Candidate& candidate);
  double seconds_of(const Candidate& candidate) { return time_of_step(candidate).time.total_s(); }
  Way way_of(const Candidate& candidate);
  train::StepSettings settings_of(const Candidate& candidate) const;
  // About as many as the largest step is cut into.
  int64_t num_pieces(const MicroBatchLimits& limits) const;
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
  const PlannedEpoch& epoch_;
  train::BudgetFit::LargestStep largest_;
  int64_t most_items_;
  // Of median length, its items from the longest on.
  std::vector<data::Example> step_;
  double step_length_ = 0.0;
  int64_t step_frames_ = 0;
  std::vector<MicroBatchLimits> limits_;
  std::map<Candidate, device::MemoryReport> memory_;
  std::map<Candidate, Timed> times_;
  std::set<Candidate> confirmed_;
};

}  // namespace sotto::plan
