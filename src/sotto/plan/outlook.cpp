#include "sotto/plan/outlook.h"

#include <span>

#include "sotto/train/step/dry_run.h"

namespace sotto::plan {

namespace {

// Returns the tiers that may take the least memory: one tier for all layers, or another one for the
// last layer, whose activations are needed immediately.
std::vector<nn::LayerTiers> tiers_to_try(const PlanRequest& request, int64_t num_layers) {
  if (!request.open.tier) return {request.config.tier};
  std::vector<nn::LayerTiers> all;
  const std::span<const nn::Tier> tiers = tiers_of(request.target);
  for (size_t i = tiers.size(); i-- > 0;) {
    all.emplace_back(tiers[i]);
    if (i > 0 && num_layers > 1)
      all.push_back({{{.num_layers = num_layers - 1, .tier = tiers[i]}}, tiers[i - 1]});
  }
  return all;
}

}  // namespace

// The minimum is not the same everywhere: a bf16 product may need more workspace than an fp32 one,
// and a recomputed block more memory than a kept one.
double longest_fitting_s(const PlanRequest& request, const data::Source& source) {
  double longest_s = 0.0;
  for (const train::Numerics numerics : numerics_to_try(request)) {
    for (const optim::StateLocation location : locations_to_try(request)) {
      train::RunConfig config = request.config;
      config.numerics = numerics;
      config.optimizer.state = location;
      train::DryRun dry(config, request.shape, train::DryRun::Purpose::kTraining, request.target);
      train::BudgetFit fit(dry, source, request.budget);
      for (const nn::LayerTiers& tier : tiers_to_try(request, dry.model().num_tapes()))
        longest_s = fit.longest_fitting_s({.tier = tier}, longest_s);
    }
  }
  return longest_s;
}

std::vector<Outlook> look_around(Planner& planner, const std::vector<int64_t>& arenas) {
  std::vector<Outlook> all;
  for (const int64_t bytes : arenas)
    all.push_back({.arena_bytes = bytes, .candidate = planner.best_in(bytes)});
  return all;
}

}  // namespace sotto::plan
