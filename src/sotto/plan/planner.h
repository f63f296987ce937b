// Finds the fastest settings within a budget: where the optimizer's state is stored, what each
// layer keeps for backward, the size of micro-batches, and, where it is open, the arithmetic. Every
// memory figure comes from a dry run; nothing is estimated by a formula.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sotto/plan/plan_request.h"
#include "sotto/plan/search.h"

namespace sotto::plan {

struct Plan {
  Candidate best;
  // The fastest alternative for each other location of the state, each other open arithmetic, and
  // one tier for all layers; fastest first.
  std::vector<Candidate> others;
};

class Planner {
 public:
  // Default maximum of utterances per micro-batch.
  static constexpr int64_t kMostUtterances = 64;

  // The source must outlive the planner.
  Planner(PlanRequest request, const data::Source& source);
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // Throws Infeasible where nothing fits; the message names the smallest sufficient budget.
  Plan plan();
  // Returns the best alternative for another arena; none where nothing fits.
  std::optional<Candidate> best_in(int64_t arena_bytes);
  // Returns the bytes of the smallest arena for which there is a plan: with one byte less, plan()
  // refuses. Throws Infeasible where none is possible, or where all take more host memory than
  // there is.
  int64_t smallest_arena();
  // Number of steps per epoch with the data of the plan.
  int64_t steps_per_epoch() const { return epoch_.order.num_steps(); }
  // Returns the bytes alive at each moment of a step of median length.
  std::vector<device::MomentPeak> timeline_of(const Candidate& candidate) const;

 private:
  struct Branch;

  std::vector<int64_t> loss_rows_to_try() const;
  Search& search_of(Branch& branch);
  Branch& branch_of(const train::RunConfig& config);
  std::vector<Candidate> candidates_in(const train::StepBudget& budget);
  // Returns the alternatives that choose() may select, without confirmation.
  std::vector<Candidate> likely_candidates_in(const train::StepBudget& budget);
  const Candidate& choose(const std::vector<Candidate>& candidates) const;
  // Returns the branch with the smallest minimum; null where none is possible.
  Branch* nearest();
  struct Smallest {
    Branch* branch = nullptr;
    Search::Least least;
  };
  // Throws as smallest_arena() does.
  Smallest find_smallest();
  [[noreturn]] void refuse();
  // Throws where the fixed settings split a step into more micro-batches than bf16 gradients may be
  // summed over.
  [[noreturn]] void refuse_split() const;

  PlanRequest request_;
  const data::Source& source_;
  PlannedEpoch epoch_;
  // One search per combination of settings that are fixed within a search, most exact arithmetic
  // first.
  std::vector<Branch> branches_;
};

}  // namespace sotto::plan
