#include "sotto/plan/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sotto/core/config/config.h"
#include "sotto/data/batch/example_list.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "sotto/plan/usual_data.h"

namespace sotto::plan {

namespace {

using train::RunConfig;

// Returns the items up to the 95th percentile of length.
data::ExampleList without_longest(const data::Source& source, double& limit_s) {
  std::vector<float> lengths = source.lengths();
  std::vector<float> sorted = lengths;
  const auto index = static_cast<std::ptrdiff_t>(0.95 * static_cast<double>(sorted.size()));
  std::ranges::nth_element(sorted, sorted.begin() + index);
  const float limit = sorted[static_cast<size_t>(index)];
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

// Builds the ladder; each rung includes the earlier ones that save memory.
class Climb {
 public:
  Climb(const PlanRequest& request, const data::Source& source, const PlannedEpoch& epoch,
        int64_t least_bytes)
      : request_(request), source_(source), epoch_(epoch), lowest_bytes_(least_bytes) {}

  std::vector<Rung> take() { return std::move(rungs_); }

  // Adds rungs that change where data is stored and what is kept.
  void keep_less() {
    const auto at = [&](const char* name, nn::Tier tier) {
      if (request_.open.tier) return;
      step(slower({.key = "tier", .value = name}),
           [&](RunConfig& changed) { changed.tier = tier; });
    };
    at("block", nn::Tier::kBlock);
    if (!request_.target.is_cuda()) return;
    if (!request_.open.state)
      step(slower({.key = "optimizer.state", .value = "host"}),
           [](RunConfig& changed) { changed.optimizer.state = optim::StateLocation::kHost; });
    at("host", nn::Tier::kHost);
  }

  void split() {
    if (config_.micro_batch > 1 && !config_.adaptive_batching)
      step(slower({.key = "micro_batch", .value = "1"}),
           [](RunConfig& changed) { changed.micro_batch = 1; });
    if (!config_.model.has_loss_rows() || request_.open.loss_rows) return;
    constexpr int64_t kLeastRows = kernels::CrossEntropy::kRowStep;
    step(slower({.key = "model.loss_rows", .value = std::to_string(kLeastRows)}),
         [](RunConfig& changed) { changed.model.set_loss_rows(kLeastRows); });
  }

  void round() {
    if (!request_.target.has_bf16()) {
      round_to(train::Numerics::kFp16, "other rounding, and the loss is scaled");
      step({.key = "precision.moments", .value = "8bit", .effect = "coarser rounding of moments"},
           [](RunConfig& changed) { changed.precision.moments = optim::Moments::k8Bit; });
      return;
    }
    const bool is_slow = !request_.target.is_cuda() && !request_.target.cpu.bf16;
    const std::string slow = is_slow ? ", and slow: this processor has no bf16" : "";
    round_to(train::Numerics::kBf16Exact, "other rounding" + slow);
    round_to(train::Numerics::kBf16Lean, "coarser rounding of weights and moments" + slow);
  }

  // Adds rungs for optional parts of the family.
  void give_up() {
    for (const models::Saving& saving : config_.model.savings()) {
      const std::string key = "model." + saving.key;
      step({.key = key, .value = saving.value, .effect = saving.effect}, [&](RunConfig& changed) {
        read_group(load_overrides({key + "=" + saving.value}), as_group(changed));
      });
    }
  }

  void shorten() {
    if (config_.model.task().is_text()) return shorten_rows();
    double limit_s = 0.0;
    const data::ExampleList shorter = without_longest(source_, limit_s);
    step_with(config_,
              {.key = "data.max_seconds",
               .value = fmt::format("{:.1f}", limit_s),
               .effect = "skips the longest 5 % of the utterances"},
              shorter, PlannedEpoch(config_, shorter));
  }

 private:
  // Completes a rung that changes only how a step is computed. The bytes are those of the smallest
  // micro-batches, so that the result is the same only where the split does not matter.
  Rung slower(Rung rung) const {
    rung.keeps_result = !config_.model.split_dependence();
    rung.effect =
        rung.keeps_result ? "slower, the same result" : "slower; the result depends on the split";
    return rung;
  }

  // Switches to other numerics, and drops individually set parts of the previous ones.
  void round_to(train::Numerics numerics, const std::string& effect) {
    const std::vector<train::Numerics> tried = numerics_to_try(request_);
    const bool is_tried = std::ranges::find(tried, numerics) != tried.end();
    if (request_.open.numerics && is_tried) return;
    step({.key = "numerics",
          .value = std::string(name_of(numerics, train::kNumerics)),
          .effect = effect},
         [&](RunConfig& changed) {
           changed.numerics = numerics;
           const int64_t small_below = changed.precision.small_below;
           changed.precision = {};
           changed.precision.small_below = small_below;
         });
  }

  void shorten_rows() {
    RunConfig shorter = config_;
    shorter.data.row_tokens /= 2;
    // A row longer than the user's max_frames cannot be run.
    const bool is_fixed = !request_.open.max_frames && config_.max_frames > 0;
    if (is_fixed && shorter.data.row_tokens > config_.max_frames) return;
    const data::ExampleList rows = usual_data(shorter);
    step_with(shorter,
              {.key = "data.row_tokens",
               .value = std::to_string(shorter.data.row_tokens),
               .effect = "less context for each token"},
              rows, PlannedEpoch(shorter, rows));
  }

  void step(Rung rung, const auto& apply) {
    RunConfig changed = config_;
    apply(changed);
    step_with(changed, std::move(rung), source_, epoch_);
  }

  // Drops a rung that saves nothing, or that does not fit into host memory.
  void step_with(const RunConfig& changed, Rung rung, const data::Source& source,
                 const PlannedEpoch& epoch) {
    PlanRequest request = request_;
    request.config = changed;
    const std::optional<device::MemoryReport> least = least_of(request, source, epoch);
    if (!least || least->high_water >= lowest_bytes_) return;
    if (least->host_peak > request_.budget.host_bytes) return;
    rung.least_bytes = lowest_bytes_ = least->high_water;
    rungs_.push_back(std::move(rung));
    config_ = changed;
  }

  const PlanRequest& request_;
  const data::Source& source_;
  const PlannedEpoch& epoch_;
  // The configuration with all rungs so far.
  RunConfig config_ = request_.config;
  int64_t lowest_bytes_;
  std::vector<Rung> rungs_;
};

}  // namespace

std::string Rung::to_string() const {
  return fmt::format("--set {}={} ({})", key, value, effect);
}

// Times are irrelevant here.
std::optional<device::MemoryReport> least_of(const PlanRequest& request, const data::Source& source,
                                             const PlannedEpoch& epoch) {
  const SearchRequest fixed{.config = request.config,
                            .shape = request.shape,
                            .target = request.target,
                            .rates = {},
                            .finds_tier = false,
                            .finds_max_frames = request.open.max_frames};
  const auto least = Search(fixed, source, epoch).least(request.budget.host_bytes);
  if (!least) return std::nullopt;
  return least->memory;
}

std::vector<Rung> make_ladder(const PlanRequest& request, const data::Source& source,
                              const PlannedEpoch& epoch, int64_t least_bytes) {
  Climb climb(request, source, epoch, least_bytes);
  climb.keep_less();
  climb.round();
  climb.split();
  climb.give_up();
  climb.shorten();
  return climb.take();
}

}  // namespace sotto::plan
