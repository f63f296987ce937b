#include "sotto/plan/outlook.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "sotto/data/example_list.h"
#include "sotto/plan/usual_data.h"
#include "sotto/train/dry_run.h"

namespace sotto::plan {

namespace {

using train::RunConfig;

// What such a run takes at least, with nothing open but how its steps are split; nothing where no
// split is possible.
std::optional<device::MemoryReport> least_of(const RunConfig& config, const PlanRequest& request,
                                             const data::Source& source) {
  PlanRequest fixed = request;
  fixed.config = config;
  fixed.open = {.numerics = false,
                .state = false,
                .tier = false,
                .max_frames = request.open.max_frames,
                .micro_batch = false,
                .loss_rows = false};
  // Times do not matter.
  fixed.rates = [](train::Compute) { return kernels::Rates{}; };
  return Planner(std::move(fixed), source).least();
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

double longest_fitting_s(const PlanRequest& request, const data::Source& source) {
  RunConfig least = request.config;
  const bool is_cuda = request.target.is_cuda();
  if (request.open.tier) least.tier = is_cuda ? nn::Tier::kHost : nn::Tier::kBlock;
  if (request.open.state && is_cuda) least.optimizer.state = optim::StatePlace::kHost;
  least.numerics = numerics_to_try(request).back();
  train::DryRun dry(least, request.shape, train::DryRun::Purpose::kTraining, request.target);
  return train::BudgetFit(dry, source, request.budget).longest_fitting_s({.tier = least.tier});
}

std::vector<Outlook> look_around(Planner& planner, const std::vector<int64_t>& arenas) {
  std::vector<Outlook> all;
  for (const int64_t bytes : arenas)
    all.push_back({.arena_bytes = bytes, .way = planner.best_in(bytes)});
  return all;
}

std::vector<Rung> ladder(const PlanRequest& request, const data::Source& source) {
  RunConfig config = request.config;
  const std::optional<device::MemoryReport> now = least_of(config, request, source);
  std::vector<Rung> rungs = {
      {.change = "as it is",
       .least_bytes = now ? now->high_water : std::numeric_limits<int64_t>::max()}};
  // What saves nothing, or what the host has no room for, is not kept.
  const auto climb_with = [&](const RunConfig& changed, const std::string& change,
                              const data::Source& of) {
    const std::optional<device::MemoryReport> least = least_of(changed, request, of);
    if (!least || least->high_water >= rungs.back().least_bytes) return;
    if (least->host_peak > request.budget.host_bytes) return;
    rungs.push_back({.change = change, .least_bytes = least->high_water});
    config = changed;
  };
  const auto climb = [&](const std::string& change, const auto& apply) {
    RunConfig changed = config;
    apply(changed);
    climb_with(changed, change, source);
  };
  const auto take = [&](train::Numerics numerics) {
    return [numerics](RunConfig& changed) {
      changed.numerics = numerics;
      const int64_t small_below = changed.precision.small_below;
      changed.precision = {};
      changed.precision.small_below = small_below;
    };
  };
  climb("tier: block (slower, the same result)",
        [](RunConfig& changed) { changed.tier = nn::Tier::kBlock; });
  if (request.target.is_cuda()) {
    climb("optimizer.state: host (slower, the same result)",
          [](RunConfig& changed) { changed.optimizer.state = optim::StatePlace::kHost; });
    climb("tier: host (slower, the same result)",
          [](RunConfig& changed) { changed.tier = nn::Tier::kHost; });
  }
  if (request.target.has_bf16()) {
    climb("numerics: bf16-exact (other rounding)", take(train::Numerics::kBf16Exact));
    climb("numerics: bf16-lean (coarser rounding of weights and moments)",
          take(train::Numerics::kBf16Lean));
  } else {
    climb("numerics: fp16 (other rounding, and the loss is scaled)", take(train::Numerics::kFp16));
    climb("precision.moments: 8bit (coarser rounding of moments)",
          [](RunConfig& changed) { changed.precision.moments = optim::Moments::k8Bit; });
  }
  if (config.micro_batch > 1 && !config.adaptive_batching)
    climb("micro_batch: 1 (slower, the same result)",
          [](RunConfig& changed) { changed.micro_batch = 1; });
  if (config.model.is_language_model()) {
    climb("model.loss_rows: 64 (slower, the same result)", [](RunConfig& changed) {
      changed.model.decoder_lm.loss_rows = kernels::CrossEntropy::kRowStep;
    });
    RunConfig shorter = config;
    shorter.data.row_tokens /= 2;
    // A row that is longer than a max_frames of the user's cannot be run.
    const bool is_fixed = !request.open.max_frames && config.max_frames > 0;
    if (!is_fixed || shorter.data.row_tokens <= config.max_frames) {
      climb_with(
          shorter,
          fmt::format("data.row_tokens: {} (tokens see less before them)", shorter.data.row_tokens),
          usual_data(shorter));
    }
  }
  if (config.model.family == models::Family::kWav2Vec2) {
    climb("model.freeze_feature_encoder: true (the convolutions stay as they are)",
          [](RunConfig& changed) { changed.model.wav2vec2.freeze_feature_encoder = true; });
    const int64_t half = config.model.wav2vec2.layers / 2;
    climb(fmt::format("model.freeze_layers: {} (half of the layers stay as they are)", half),
          [&](RunConfig& changed) { changed.model.wav2vec2.freeze_layers = half; });
  }
  if (!config.model.is_language_model()) {
    double limit_s = 0.0;
    const data::ExampleList shorter = without_longest(source, limit_s);
    climb_with(
        config,
        fmt::format("data.max_seconds: {:.1f} (without the longest 5 of 100 utterances)", limit_s),
        shorter);
  }
  return rungs;
}

}  // namespace sotto::plan
