// Plans of random networks, data and budgets, each proved by two real steps in an arena that has
// just the bytes that the plan asked for.
#pragma once

#include <cstdint>
#include <string>

namespace sotto::test {

struct PlanProof {
  std::string name;
  int64_t num_parameters = 0;
  // Whether the planner found a way inside the budget.
  bool is_feasible = false;
  std::string refusal = {};
  // Of the two steps, as the dry run has them and as they were, in the order of the steps; of what
  // was refused, nothing, or with as much memory as it wants where it is large.
  struct Step {
    int64_t predicted_peak = 0, measured_peak = 0;
    int64_t predicted_high_water = 0, measured_high_water = 0;
    double predicted_s = 0.0, measured_s = 0.0;
  };
  Step steps[2] = {};
  // Of what was refused: whether it ran out of memory when it was forced.
  bool ran_out = false;
};

// The so-many-th one; `is_large`: with more than 90 million parameters.
PlanProof prove_random_plan(uint64_t number, bool is_large);

// The expectations of all of them, and what was seen, for a table.
struct PlanProofs {
  int64_t num_feasible = 0;
  int64_t num_refused = 0;
  // Of high-water marks, measured to predicted.
  double least_share = 1.0;
};
void expect_holds(const PlanProof& proof, PlanProofs& all);

}  // namespace sotto::test
