#include "sotto/plan/outlook.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <ranges>
#include <utility>

#include "sotto/data/batch/example_list.h"
#include "sotto/plan/usual_data.h"
#include "sotto/train/step/dry_run.h"

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

// From rung to rung, each with those below it that save something; what changes the result least
// comes first.
class Climb {
 public:
  Climb(const PlanRequest& request, const data::Source& source)
      : request_(request), source_(source), config_(request.config) {
    const std::optional<device::MemoryReport> now = least_of(config_, request, source);
    rungs_.push_back({.change = "as it is",
                      .least_bytes = now ? now->high_water : std::numeric_limits<int64_t>::max()});
  }

  const std::vector<Rung>& rungs() const { return rungs_; }

  // Where things lie, and what is kept.
  void place() {
    step("--set tier=block (slower, the same result)",
         [](RunConfig& changed) { changed.tier = nn::Tier::kBlock; });
    if (!request_.target.is_cuda()) return;
    step("--set optimizer.state=host (slower, the same result)",
         [](RunConfig& changed) { changed.optimizer.state = optim::StatePlace::kHost; });
    step("--set tier=host (slower, the same result)",
         [](RunConfig& changed) { changed.tier = nn::Tier::kHost; });
  }

  void round() {
    const auto take = [](train::Numerics numerics) {
      return [numerics](RunConfig& changed) {
        changed.numerics = numerics;
        const int64_t small_below = changed.precision.small_below;
        changed.precision = {};
        changed.precision.small_below = small_below;
      };
    };
    if (request_.target.has_bf16()) {
      const bool is_slow = !request_.target.is_cuda() && !request_.target.cpu.bf16;
      const char* slow = is_slow ? ", and slow: this processor has no bf16" : "";
      step(fmt::format("--set numerics=bf16-exact (other rounding{})", slow),
           take(train::Numerics::kBf16Exact));
      step(
          fmt::format("--set numerics=bf16-lean (coarser rounding of weights and moments{})", slow),
          take(train::Numerics::kBf16Lean));
    } else {
      step("--set numerics=fp16 (other rounding, and the loss is scaled)",
           take(train::Numerics::kFp16));
      step("--set precision.moments=8bit (coarser rounding of moments)",
           [](RunConfig& changed) { changed.precision.moments = optim::Moments::k8Bit; });
    }
  }

  void split() {
    if (config_.micro_batch > 1 && !config_.adaptive_batching)
      step("--set micro_batch=1 (slower, the same result)",
           [](RunConfig& changed) { changed.micro_batch = 1; });
    if (config_.model.is_language_model())
      step("--set model.loss_rows=64 (slower, the same result)", [](RunConfig& changed) {
        changed.model.decoder_lm.loss_rows = kernels::CrossEntropy::kRowStep;
      });
  }

  void freeze() {
    if (config_.model.family != models::Family::kWav2Vec2) return;
    step("--set model.freeze_feature_encoder=true (the convolutions stay as they are)",
         [](RunConfig& changed) { changed.model.wav2vec2.freeze_feature_encoder = true; });
    const int64_t half = config_.model.wav2vec2.layers / 2;
    step(fmt::format("--set model.freeze_layers={} (half of the layers stay as they are)", half),
         [&](RunConfig& changed) { changed.model.wav2vec2.freeze_layers = half; });
  }

  void shorten() {
    if (config_.model.is_language_model()) {
      shorten_rows();
      return;
    }
    double limit_s = 0.0;
    const data::ExampleList shorter = without_longest(source_, limit_s);
    step_with(config_,
              fmt::format("--set data.max_seconds={:.1f} (without the longest 5 of 100 utterances)",
                          limit_s),
              shorter);
  }

 private:
  void shorten_rows() {
    RunConfig shorter = config_;
    shorter.data.row_tokens /= 2;
    // A row that is longer than a max_frames of the user's cannot be run.
    const bool is_fixed = !request_.open.max_frames && config_.max_frames > 0;
    if (is_fixed && shorter.data.row_tokens > config_.max_frames) return;
    step_with(shorter,
              fmt::format("--set data.row_tokens={} (tokens see less before them)",
                          shorter.data.row_tokens),
              usual_data(shorter));
  }

  void step(const std::string& change, const auto& apply) {
    RunConfig changed = config_;
    apply(changed);
    step_with(changed, change, source_);
  }

  // What saves nothing, or what the host has no room for, is not kept.
  void step_with(const RunConfig& changed, const std::string& change, const data::Source& source) {
    const std::optional<device::MemoryReport> least = least_of(changed, request_, source);
    if (!least || least->high_water >= rungs_.back().least_bytes) return;
    if (least->host_peak > request_.budget.host_bytes) return;
    rungs_.push_back({.change = change, .least_bytes = least->high_water});
    config_ = changed;
  }

  const PlanRequest& request_;
  const data::Source& source_;
  // With what was kept.
  RunConfig config_;
  std::vector<Rung> rungs_;
};

}  // namespace

// What takes least is not the same everywhere: a product in bf16 may need more room to work in than
// one in fp32, and a block that is computed again more than one that is kept.
double longest_fitting_s(const PlanRequest& request, const data::Source& source) {
  double longest_s = 0.0;
  for (const train::Numerics numerics : numerics_to_try(request)) {
    for (const optim::StatePlace place : places_to_try(request)) {
      RunConfig config = request.config;
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

std::vector<Rung> ladder(const PlanRequest& request, const data::Source& source) {
  Climb climb(request, source);
  climb.place();
  climb.round();
  climb.split();
  climb.freeze();
  climb.shorten();
  return climb.rungs();
}

}  // namespace sotto::plan
