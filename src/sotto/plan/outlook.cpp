#include "sotto/plan/outlook.h"

#include <ranges>

#include "sotto/train/step/dry_run.h"

namespace sotto::plan {

// What takes least is not the same everywhere: a product in bf16 may need more room to work in than
// one in fp32, and a block that is computed again more than one that is kept.
double longest_fitting_s(const PlanRequest& request, const data::Source& source) {
  double longest_s = 0.0;
  for (const train::Numerics numerics : numerics_to_try(request)) {
    for (const optim::StatePlace place : places_to_try(request)) {
      train::RunConfig config = request.config;
      config.numerics = numerics;
      config.optimizer.state = place;
      train::DryRun dry(config, request.shape, train::DryRun::Purpose::kTraining, request.target);
      train::BudgetFit fit(dry, source, request.budget);
      if (!request.open.tier) {
        longest_s = fit.longest_fitting_s({.tier = config.tier}, longest_s);
        continue;
      }
      for (const nn::Tier tier : std::views::reverse(tiers_of(request.target)))
        longest_s = fit.longest_fitting_s({.tier = tier}, longest_s);
    }
  }
  return longest_s;
}

std::vector<Outlook> look_around(Planner& planner, const std::vector<int64_t>& arenas) {
  std::vector<Outlook> all;
  for (const int64_t bytes : arenas)
    all.push_back({.arena_bytes = bytes, .way = planner.best_in(bytes)});
  return all;
}

}  // namespace sotto::plan
