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

#include "sotto/plan/search.h"

namespace sotto::plan {

// What is the planner's to decide; the rest stays as the configuration has it.
struct OpenChoices {
  bool numerics = true;
  bool state = true;
  bool tier = true;
  bool max_frames = true;
  bool micro_batch = true;
  // Of a language model.
  bool loss_rows = true;
  // What does not touch the device's memory.
  bool loader_threads = true;
  bool cache = true;
  bool checkpoint_seconds = true;

  bool any() const {
    return numerics || state || tier || max_frames || micro_batch || loss_rows || loader_threads ||
           cache || checkpoint_seconds;
  }
};

struct PlanRequest {
  train::RunConfig config;
  OpenChoices open;
  models::DataShape shape;
  device::Target target;
  train::StepBudget budget;
  // How fast the device is in an arithmetic.
  std::function<kernels::Rates(train::Compute)> rates;
};

// Arithmetics that the plan may take, from the most exact on; and places of the optimizer's state.
std::vector<train::Numerics> numerics_to_try(const PlanRequest& request);
std::vector<optim::StatePlace> places_to_try(const PlanRequest& request);

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
  // The least that any way takes; one that the host has room for comes before any other. Nothing
  // where no split of a step is possible.
  std::optional<device::MemoryReport> least();
  // With the data that is planned for.
  int64_t steps_an_epoch() const { return epoch_.num_steps(); }
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
  // The first epoch, and its step of median length.
  data::EpochOrder epoch_;
  int64_t typical_ = 0;
  // The searches with what is outside of them fixed, from the most exact arithmetic on.
  std::vector<Branch> branches_;
};

}  // namespace sotto::plan
