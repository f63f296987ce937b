#include "sotto/plan/outlook.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/data/example_list.h"
#include "sotto/train/dry_run.h"

namespace sotto::plan {

namespace {

using train::RunConfig;

// What the longest item alone takes.
int64_t least_bytes(const RunConfig& config, const PlanRequest& request,
                    const data::Source& source) {
  train::DryRun dry(config, request.shape, train::DryRun::Purpose::kTraining, request.target);
  train::BudgetFit fit(dry, source, request.budget);
  MicroBatchLimits limits = train::limits_of(config);
  if (limits.is_adaptive) limits.max_frames = fit.measure_largest(config.effective_batch).longest;
  return fit.worst_under(config.effective_batch, {.tier = config.tier, .limits = limits})
      .high_water;
}

// The items that are at most as long as 95 of 100.
data::ExampleList without_longest(const data::Source& source, double& limit_s) {
  std::vector<float> lengths = source.lengths();
  std::vector<float> sorted = lengths;
  const auto place = static_cast<std::ptrdiff_t>(0.95 * static_cast<double>(sorted.size()));
  std::ranges::nth_element(sorted, sorted.begin() + place);
  const float limit = sorted[static_cast<size_t>(place)];
  std::vector<data::Example> kept;
  std::vector<float> kept_lengths;
  for (int64_t i = 0; i < source.num_items(); ++i) {
    if (lengths[static_cast<size_t>(i)] > limit) continue;
    kept.push_back(source.dry_at(i));
    kept_lengths.push_back(lengths[static_cast<size_t>(i)]);
  }
  limit_s = double{limit};
  return data::ExampleList(std::move(kept), std::move(kept_lengths));
}

}  // namespace

std::vector<Outlook> look_around(const PlanRequest& request, const data::Source& source,
                                 const Plan& plan, const std::vector<double>& shares) {
  std::vector<Outlook> all;
  PlanRequest other = request;
  other.open.numerics = false;
  other.config.numerics = plan.best.config.numerics;
  for (const double share : shares) {
    other.budget.bytes = static_cast<int64_t>(share * static_cast<double>(request.budget.bytes));
    Outlook outlook{.arena_bytes = other.budget.bytes, .way = {}};
    try {
      outlook.way = Planner(other, source).plan().best;
    } catch (const ConfigError&) {
      outlook.way.reset();  // it does not fit, which is an answer
    }
    all.push_back(std::move(outlook));
  }
  return all;
}

std::vector<Rung> ladder(const PlanRequest& request, const data::Source& source) {
  RunConfig config = request.config;
  std::vector<Rung> rungs = {
      {.change = "as it is", .least_bytes = least_bytes(config, request, source)}};
  const auto climb = [&](const std::string& change, const data::Source& of) {
    const int64_t least = least_bytes(config, request, of);
    if (least < rungs.back().least_bytes) rungs.push_back({.change = change, .least_bytes = least});
  };
  config.tier = nn::Tier::kBlock;
  climb("tier: block: slower, the same result", source);
  if (request.target.is_cuda()) {
    config.optimizer.state = optim::StatePlace::kHost;
    climb("optimizer.state: host: slower, the same result", source);
    config.tier = nn::Tier::kHost;
    climb("tier: host: slower, the same result", source);
  }
  if (request.target.has_bf16()) {
    const int64_t small_below = config.precision.small_below;
    config.precision = {};
    config.precision.small_below = small_below;
    config.numerics = train::Numerics::kBf16Exact;
    climb("numerics: bf16-exact: other rounding", source);
    config.numerics = train::Numerics::kBf16Lean;
    climb("numerics: bf16-lean: coarser rounding of weights and moments", source);
  }
  if (!config.model.is_language_model()) {
    double limit_s = 0.0;
    const data::ExampleList shorter = without_longest(source, limit_s);
    climb(fmt::format("data.max_seconds: {:.1f}: without the longest 5 of 100 utterances", limit_s),
          shorter);
  }
  return rungs;
}

}  // namespace sotto::plan
