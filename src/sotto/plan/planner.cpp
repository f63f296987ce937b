#include "sotto/plan/planner.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/plan/outlook.h"
#include "sotto/train/dry_run.h"

namespace sotto::plan {

namespace {

using nn::LayerTiers;
using nn::Tier;
using train::BudgetFit;
using train::Numerics;

// A more exact arithmetic is taken where it is at most so many times as slow as the fastest.
constexpr double kMuchSlower = 1.5;

// Micro-batches that the largest step is cut into, for trial.
constexpr std::array<int64_t, 12> kPieces = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

// From the one that keeps most.
constexpr std::array kDownwards = {Tier::kNone, Tier::kNorms, Tier::kFfn,
                                   Tier::kQkv,  Tier::kBlock, Tier::kHost};

LayerTiers mixed(int64_t num_layers, Tier first, Tier rest) {
  return {{{.num_layers = num_layers, .tier = first}}, rest};
}

// The search with arithmetic and place of the state fixed.
class Search {
 public:
  Search(const PlanRequest& request, const train::RunConfig& config, const data::Source& source,
         std::span<const uint32_t> typical)
      : request_(request),
        config_(config),
        source_(source),
        dry_(config, request.shape, train::DryRun::Purpose::kTraining, request.target),
        fit_(dry_, source, request.budget),
        rates_(request.rates(config.arithmetic().compute)),
        largest_(fit_.measure_largest(config.effective_batch)) {
    const std::vector<float> lengths = source.lengths();
    for (const uint32_t place : typical) {
      step_.push_back(source.dry_at(place));
      step_length_ += double{lengths[place]};
    }
  }

  // The fastest way; nothing where none fits.
  std::optional<Way> best() {
    std::optional<Way> best;
    for (const MicroBatchLimits& limits : limits_to_try()) {
      const std::optional<LayerTiers> tier = tiers_for(limits);
      if (!tier) continue;
      Way way = way_of(limits, *tier);
      const bool is_better = !best || way.time.total_s() < best->time.total_s();
      if (is_better) best = std::move(way);
      // Where nothing is computed again, smaller micro-batches have nothing more to give.
      if (!is_better && *tier == Tier::kNone) break;
    }
    return best;
  }

  // The least that any way needs: the longest item alone.
  device::MemoryReport least() {
    MicroBatchLimits limits = train::limits_of(config_);
    if (limits.is_adaptive) limits.max_frames = largest_.longest;
    device::MemoryReport least = report_of(limits, config_.tier);
    if (!request_.open.tier) return least;
    for (const Tier tier : tiers_to_try().subspan(4)) {
      device::MemoryReport report = report_of(limits, tier);
      if (report.host_peak <= request_.budget.host_bytes && report.high_water < least.high_water)
        least = std::move(report);
    }
    return least;
  }

 private:
  train::StepSettings settings(const MicroBatchLimits& limits, const LayerTiers& tier) const {
    return {.reduction = config_.reduction, .tier = tier, .drops_layers = false, .limits = limits};
  }

  device::MemoryReport report_of(const MicroBatchLimits& limits, const LayerTiers& tier) {
    return fit_.worst_under(config_.effective_batch, settings(limits, tier));
  }

  // What a CPU calls its host is the same memory.
  std::span<const Tier> tiers_to_try() const {
    const std::span<const Tier> all = kDownwards;
    return request_.target.is_cuda() ? all : all.first(all.size() - 1);
  }

  std::vector<MicroBatchLimits> limits_to_try() const {
    const MicroBatchLimits fixed = train::limits_of(config_);
    if (!request_.open.max_frames || !fixed.is_adaptive) return {fixed};
    std::vector<MicroBatchLimits> all;
    for (const int64_t pieces : kPieces) {
      MicroBatchLimits limits = fixed;
      limits.max_frames = std::max((largest_.frames + pieces - 1) / pieces, largest_.longest);
      if (pieces == 1) limits.max_frames = MicroBatchLimits::kUnlimited;
      if (allows(limits)) all.push_back(limits);
      if (limits.max_frames == largest_.longest) break;
    }
    return all;
  }

  // Whether gradients may be summed over so many micro-batches.
  bool allows(const MicroBatchLimits& limits) const {
    if (dry_.gradient_type() == at::kFloat) return true;
    const int64_t pieces = (largest_.frames + limits.max_frames - 1) / limits.max_frames;
    // Some are not quite full.
    return limits.max_frames == MicroBatchLimits::kUnlimited ||
           pieces * 5 / 4 <= train::kMaxBf16Sums;
  }

  // What keeps most and fits: one tier for all layers, or the next one that keeps more for as many
  // of the last layers as there is room for.
  std::optional<LayerTiers> tiers_for(const MicroBatchLimits& limits) {
    const auto fits = [&](const LayerTiers& tier) { return fit_.fits(report_of(limits, tier)); };
    if (!request_.open.tier) return fits(config_.tier) ? std::optional(config_.tier) : std::nullopt;
    const std::span<const Tier> tiers = tiers_to_try();
    const auto found = std::ranges::find_if(tiers, fits);
    if (found == tiers.end()) return std::nullopt;
    if (found == tiers.begin()) return *found;
    const Tier less = *found, more = *std::prev(found);
    int64_t good = dry_.model().num_tapes(), bad = 0;
    while (good - bad > 1) {
      const int64_t middle = bad + (good - bad) / 2;
      (fits(mixed(middle, less, more)) ? good : bad) = middle;
    }
    return good == dry_.model().num_tapes() ? LayerTiers(less) : mixed(good, less, more);
  }

  // How long a typical step takes: the largest of its micro-batches stands for the others.
  Way way_of(const MicroBatchLimits& limits, const LayerTiers& tier) {
    const auto micro_batches = train::split_step(dry_.model(), step_, limits);
    const auto frames_of = [&](const std::vector<int64_t>& places) {
      int64_t frames = 0;
      for (const int64_t i : places)
        frames += dry_.model().num_frames(step_[static_cast<size_t>(i)].rows);
      return frames;
    };
    int64_t all_frames = 0, most_frames = 0;
    const std::vector<int64_t>* most = nullptr;
    for (const std::vector<int64_t>& places : micro_batches) {
      const int64_t frames = frames_of(places);
      all_frames += frames;
      if (frames <= most_frames) continue;
      most_frames = frames;
      most = &places;
    }
    std::vector<data::Example> examples;
    for (const int64_t i : *most) examples.push_back(step_[static_cast<size_t>(i)]);
    const kernels::CostRecorder recorded(&rates_);
    dry_.run_step(examples, settings({}, tier));

    Way way{.config = config_,
            .fit = {.limits = limits, .worst = report_of(limits, tier)},
            .time = time_of(recorded, rates_,
                            static_cast<double>(all_frames) / static_cast<double>(most_frames)),
            .step_audio_s = step_length_,
            .micro_batches = std::ssize(micro_batches)};
    way.config.tier = tier;
    way.config.max_frames =
        limits.max_frames == MicroBatchLimits::kUnlimited ? 0 : limits.max_frames;
    return way;
  }

  const PlanRequest& request_;
  train::RunConfig config_;
  const data::Source& source_;
  train::DryRun dry_;
  BudgetFit fit_;
  kernels::Rates rates_;
  BudgetFit::LargestStep largest_;
  // Of median length.
  std::vector<data::Example> step_;
  double step_length_ = 0.0;
};

// The step of median length of the first epoch.
std::vector<uint32_t> typical_step(const train::RunConfig& config, const data::Source& source) {
  const std::vector<float> lengths = source.lengths();
  const data::Sampler sampler({.seed = static_cast<uint64_t>(config.seed),
                               .batch = config.effective_batch,
                               .curriculum = config.curriculum},
                              lengths);
  const data::EpochOrder epoch = sampler.epoch(0);
  std::vector<std::pair<double, int64_t>> steps;
  for (int64_t step = 0; step < epoch.num_steps(); ++step) {
    double length = 0.0;
    for (const uint32_t place : epoch.utterances(step)) length += double{lengths[place]};
    steps.emplace_back(length, step);
  }
  const auto middle = steps.begin() + std::ssize(steps) / 2;
  std::ranges::nth_element(steps, middle);
  const std::span<const uint32_t> places = epoch.utterances(middle->second);
  return {places.begin(), places.end()};
}

}  // namespace

Planner::Planner(PlanRequest request, const data::Source& source)
    : request_(std::move(request)),
      source_(source),
      typical_(typical_step(request_.config, source)) {}

Planner::~Planner() = default;

// From the most exact on, those that the target has.
std::vector<Numerics> Planner::numerics_to_try() const {
  if (!request_.open.numerics) return {request_.config.numerics};
  std::vector<Numerics> all = {Numerics::kFp32};
  if (!request_.target.is_cuda()) {
    all.push_back(Numerics::kBf16Exact);
    all.push_back(Numerics::kBf16Lean);
  } else if (request_.target.has_bf16()) {
    all.insert(all.end(), {Numerics::kTf32, Numerics::kBf16Exact, Numerics::kBf16Lean});
  } else {
    all.push_back(Numerics::kFp16);
  }
  return all;
}

std::vector<optim::StatePlace> Planner::places_to_try() const {
  if (!request_.open.state) return {request_.config.optimizer.state};
  // What a CPU calls its host is the same memory.
  if (!request_.target.is_cuda()) return {optim::StatePlace::kDevice};
  return {optim::StatePlace::kDevice, optim::StatePlace::kHost};
}

Plan Planner::plan() {
  std::vector<Way> ways;  // from the most exact arithmetic on
  for (const Numerics numerics : numerics_to_try()) {
    // A CPU computes in fp32 what is given to it in bf16: that saves memory alone.
    if (!request_.target.is_cuda() && !ways.empty()) break;
    for (const optim::StatePlace place : places_to_try()) {
      train::RunConfig config = request_.config;
      config.numerics = numerics;
      config.optimizer.state = place;
      Search search(request_, config, source_, typical_);
      if (std::optional<Way> way = search.best()) {
        ways.push_back(std::move(*way));
        continue;
      }
      const int64_t least = search.least().high_water;
      if (least_bytes_ != 0 && least >= least_bytes_) continue;
      least_bytes_ = least;
      least_way_ =
          fmt::format("{} with the optimizer's state on the {}",
                      name_of(numerics, train::kNumerics), name_of(place, optim::kStatePlaces));
    }
  }
  if (ways.empty()) refuse();
  const Way* const best = &choose(ways);
  Plan plan{.best = *best, .others = {}};
  for (const Way& way : ways)
    if (&way != best) plan.others.push_back(way);
  std::ranges::stable_sort(plan.others, {}, [](const Way& way) { return way.time.total_s(); });
  return plan;
}

// The most exact arithmetic that is not much slower than the fastest; of its ways the fastest.
const Way& Planner::choose(const std::vector<Way>& ways) const {
  const auto seconds = [](const Way& way) { return way.time.total_s(); };
  const double fastest = seconds(*std::ranges::min_element(ways, {}, seconds));
  const Numerics numerics = std::ranges::find_if(ways, [&](const Way& way) {
                              return seconds(way) <= kMuchSlower * fastest;
                            })->config.numerics;
  const Way* best = nullptr;
  for (const Way& way : ways) {
    if (way.config.numerics != numerics) continue;
    if (best == nullptr || seconds(way) < seconds(*best)) best = &way;
  }
  return *best;
}

void Planner::refuse() {
  std::string hint = fmt::format("--memory {}MiB would do.", (budget_for(least_bytes_) >> 20) + 1);
  const std::vector<Rung> rungs = ladder(request_, source_);
  for (size_t i = 1; i < rungs.size(); ++i)
    hint += fmt::format("\n  {}: needs {}", rungs[i].change,
                        format_bytes(budget_for(rungs[i].least_bytes)));
  throw ConfigError(
      {.attempted = "planning a run inside its budget",
       .found = fmt::format("the longest item alone needs {}, as {}",
                            format_bytes(budget_for(least_bytes_)), least_way_),
       .expected = fmt::format("at most {}", format_bytes(budget_for(request_.budget.bytes))),
       .hint = hint});
}

}  // namespace sotto::plan
