// Searches for the fastest settings within a budget, for a fixed arithmetic, location of the
// optimizer's state and chunk size of the loss: what each layer keeps for backward, and the size of
// micro-batches. Dry runs are cached, so that further budgets cost little more.
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

// One feasible configuration within the budget.
struct Candidate {
  // The configuration including all decisions.
  train::RunConfig config;
  // The limits, and the memory of the largest micro-batch.
  train::Fit fit;
  // Time of a step of median length.
  StepTime time;
  double step_audio_s = 0.0;  // tokens for text
  int64_t micro_batches = 0;

  // Seconds of audio, or tokens, per second.
  double speed() const { return step_audio_s / time.total_s(); }
};

struct SearchRequest {
  train::RunConfig config;
  models::DataShape shape;
  device::Target target;
  kernels::Rates rates;
  // Settings to search; the others stay as configured.
  bool finds_tier = true;
  bool finds_max_frames = true;
};

// Returns the tiers that are useful on a device, in descending order of memory kept.
std::span<const nn::Tier> tiers_of(const device::Target& target);

// The first epoch of a run, and its step of median length, for which times are given.
struct PlannedEpoch {
  // Throws ConfigError where there is no data to plan for.
  PlannedEpoch(const train::RunConfig& config, const data::Source& source);

  data::EpochOrder order;
  int64_t median_step = 0;
};

class Search {
 public:
  // The source and the epoch must outlive the search.
  Search(const SearchRequest& request, const data::Source& source, const PlannedEpoch& epoch);
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // False where a fixed split has more micro-batches than bf16 gradients may be summed over.
  bool is_possible() const { return !limits_.empty(); }

  // Returns the fastest alternative; none where nothing fits.
  std::optional<Candidate> best(const train::StepBudget& budget);
  // Returns the fastest alternative without the check of the epoch's actual micro-batches that
  // best() makes.
  std::optional<Candidate> likely_best(const train::StepBudget& budget);
  // Returns the fastest with one tier for all layers, with the largest micro-batches that fit.
  std::optional<Candidate> best_at(nn::Tier tier, const train::StepBudget& budget);
  // Lower bound of the seconds of a step, for any budget. Requires is_possible().
  double least_seconds();

  struct Least {
    // The configuration with the tier of the minimum.
    train::RunConfig config;
    device::MemoryReport memory;
  };
  // Returns the minimum memory, regardless of the device's budget: with the smallest micro-batches.
  // None where nothing is possible.
  std::optional<Least> least(int64_t host_bytes);
  // Returns a lower bound of least() that is cheaper to compute. Requires is_possible().
  device::MemoryReport likely_least(int64_t host_bytes);
  // Whether the smallest micro-batches have one item each: bf16 gradients may not be summed over
  // that many.
  bool has_items_alone() const;

 private:
  // Index into limits_.
  enum class LimitsIndex : size_t {};
  // One point of the search: the size of micro-batches, and the position in the sequence of tiers.
  struct Point {
    LimitsIndex limits = {};
    int64_t row_step = 0;

    friend auto operator<=>(const Point&, const Point&) = default;
  };
  struct Timed {
    StepTime time;
    int64_t micro_batches = 0;
  };

  const MicroBatchLimits& limits_at(LimitsIndex index) const {
    return limits_[static_cast<size_t>(index)];
  }
  // Index of the smallest micro-batches.
  LimitsIndex last_limits() const { return LimitsIndex{limits_.size() - 1}; }

  // Tiers of all layers as one sequence, in descending order of memory kept: at step k * L + j the
  // first j of L layers have tier k + 1, the others tier k. Memory decreases along it, and time
  // increases: each tier costs more time per byte saved than the one before it, so that mixing
  // neighbouring tiers is as good as any mix.
  nn::LayerTiers tiers_at(int64_t row_step) const;
  int64_t num_row_steps() const;
  std::vector<int64_t> marks_in_tier() const;
  std::optional<Point> first_tier(const Point& from, const train::StepBudget& budget);
  Point first_fitting(const Point& good, const train::StepBudget& budget);

  std::optional<Point> find_best(const train::StepBudget& budget);
  // Whether micro-batches cannot be made smaller.
  bool is_smallest(const MicroBatchLimits& limits) const;
  // Whether the epoch's actual micro-batches fit too: they are smaller than the largest possible
  // one, but may fragment memory more, or be too many. Their memory is cached.
  bool is_confirmed(const Point& point, const train::StepBudget& budget);
  // Returns the point with these limits that takes the least memory, preferably one that fits
  // into host memory.
  Point least_with(LimitsIndex limits, int64_t host_bytes);
  bool fits(const Point& point, const train::StepBudget& budget);
  device::MemoryReport& memory_of(const Point& point);
  const Timed& time_of_step(const Point& point);
  double seconds_of(const Point& point) { return time_of_step(point).time.total_s(); }
  Candidate candidate_at(const Point& point);
  train::StepSettings settings_of(const Point& point) const;
  // Estimates the number of micro-batches of the largest step.
  int64_t num_pieces(const MicroBatchLimits& limits) const;
  // Returns limits in descending order: for each number of micro-batches the smallest that needs no
  // more.
  std::vector<MicroBatchLimits> limits_to_try() const;
  // Returns the smallest max_frames for which the step has at most `pieces` micro-batches.
  int64_t least_frames(MicroBatchLimits limits, int64_t pieces) const;
  std::vector<data::Example> usual_micro_batch(int64_t micro_batches) const;
  // Whether gradients may be summed over this many micro-batches.
  bool may_sum(int64_t micro_batches) const;

  SearchRequest request_;
  const data::Source& source_;
  train::DryRun dry_;
  train::BudgetFit fit_;
  const PlannedEpoch& epoch_;
  train::BudgetFit::LargestStep largest_;
  int64_t most_items_;
  // The step of median length, with its items longest first.
  std::vector<data::Example> step_;
  double step_length_ = 0.0;
  int64_t step_frames_ = 0;
  std::vector<MicroBatchLimits> limits_;
  std::map<Point, device::MemoryReport> memory_;
  std::map<Point, Timed> times_;
  std::set<Point> confirmed_;
};

}  // namespace sotto::plan
