// From a budget to the settings that are fastest inside of it: where the optimizer's state lies,
// what each layer keeps for backward, how large micro-batches are, and, where it is left open, the
// arithmetic. Every memory figure is a dry run's; nothing is estimated by a formula.
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
  Way best;
  // The fastest way with each other place of the state and each other arithmetic that was open, and
  // with one tier for all layers; from the fastest on.
  std::vector<Way> others;
};

class Planner {
 public:
  // Most utterances of a micro-batch where nothing else is said.
  static constexpr int64_t kMostUtterances = 64;

  // The source must outlive it.
  Planner(PlanRequest request, const data::Source& source);
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // Throws Infeasible where nothing fits; the message names the smallest budget that would do.
  Plan plan();
  // The best way in another arena; nothing where none fits.
  std::optional<Way> best_in(int64_t arena_bytes);
  // With the data that is planned for.
  int64_t steps_an_epoch() const { return epoch_.order.num_steps(); }
  // What is alive at each moment of a step of median length.
  std::vector<device::MomentPeak> timeline_of(const Way& way) const;

 private:
  struct Branch;

  std::vector<int64_t> loss_rows_to_try() const;
  Search& search_of(Branch& branch);
  Branch& branch_of(const train::RunConfig& config);
  std::vector<Way> ways_in(const train::StepBudget& budget);
  // Those of them that choose() may take, not confirmed.
  std::vector<Way> likely_ways_in(const train::StepBudget& budget);
  const Way& choose(const std::vector<Way>& ways) const;
  // Whose least is the least of all; nothing where none is possible.
  Branch* nearest();
  [[noreturn]] void refuse();
  // Where what is fixed cuts a step into more parts than bf16 may sum.
  [[noreturn]] void refuse_split() const;

  PlanRequest request_;
  const data::Source& source_;
  PlannedEpoch epoch_;
  // The searches with what is outside of them fixed, from the most exact arithmetic on.
  std::vector<Branch> branches_;
};

}  // namespace sotto::plan
