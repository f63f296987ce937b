#include "sotto/plan/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ranges>

namespace sotto::plan {

namespace {

using nn::LayerTiers;
using nn::Tier;

// Every number of micro-batches up to that is tried, and beyond it each that is so much larger.
constexpr int64_t kAllPieces = 32;
constexpr int64_t kMorePieces = 8;

// The largest micro-batches of an epoch that a way is confirmed with, by each measure.
constexpr size_t kConfirmed = 8;

// From the one that keeps most.
constexpr std::array kDownwards = {Tier::kNone, Tier::kNorms, Tier::kFfn,
                                   Tier::kQkv,  Tier::kBlock, Tier::kHost};

}  // namespace

Search::Search(const SearchRequest& request, const data::Source& source,
               const data::EpochOrder& epoch, int64_t typical)
    : request_(request),
      source_(source),
      dry_(request.config, request.shape, train::DryRun::Purpose::kTraining, request.target),
      fit_(dry_, source, {.bytes = device::Arena::kUnlimited}),
      epoch_(epoch),
      largest_(fit_.measure_largest(request.config.effective_batch)),
      most_items_(fit_.most_items(request.config.effective_batch)) {
  const std::vector<float> lengths = source.lengths();
  for (const uint32_t place : epoch.utterances(typical)) {
    step_.push_back(source.dry_at(place));
    step_length_ += double{lengths[place]};
  }
  std::ranges::stable_sort(step_, std::greater<>(), &data::Example::rows);
  for (const data::Example& example : step_) step_frames_ += dry_.model().num_frames(example.rows);
  limits_ = limits_to_try();
}

// What a CPU calls its host is the same memory.
std::span<const Tier> tiers_of(const device::Target& target) {
  const std::span<const Tier> all = kDownwards;
  return target.is_cuda() ? all : all.first(all.size() - 1);
}

int64_t Search::num_steps() const {
  if (!request_.finds_tier) return 1;
  return (std::ssize(tiers_of(request_.target)) - 1) * dry_.model().num_tapes() + 1;
}

LayerTiers Search::tiers_at(int64_t step) const {
  if (!request_.finds_tier) return request_.config.tier;
  const int64_t layers = dry_.model().num_tapes();
  const auto tier = static_cast<size_t>(step / layers);
  const int64_t first = step % layers;
  const std::span<const Tier> tiers = tiers_of(request_.target);
  if (first == 0) return tiers[tier];
  return {{{.num_layers = first, .tier = tiers[tier + 1]}}, tiers[tier]};
}

std::vector<MicroBatchLimits> Search::limits_to_try() const {
  const MicroBatchLimits fixed = train::limits_of(request_.config);
  const bool is_named = fixed.max_frames != MicroBatchLimits::kUnlimited;
  std::vector<MicroBatchLimits> all;
  const auto add = [&](const MicroBatchLimits& limits) {
    if (may_sum(num_pieces(limits))) all.push_back(limits);
  };
  if ((!request_.finds_max_frames && is_named) || !fixed.is_adaptive) {
    add(fixed);
    return all;
  }
  MicroBatchLimits limits = fixed;
  limits.max_frames = MicroBatchLimits::kUnlimited;
  add(limits);
  for (int64_t pieces = 1; limits.max_frames > largest_.longest;
       pieces += pieces < kAllPieces ? 1 : pieces / kMorePieces) {
    const int64_t before = limits.max_frames;
    limits.max_frames = least_frames(limits, pieces);
    if (limits.max_frames < before) add(limits);
  }
  return all;
}

// Packing may by chance need fewer for less: so many values are looked at, then those before the
// first that will do.
int64_t Search::least_frames(MicroBatchLimits limits, int64_t pieces) const {
  constexpr int64_t kLookedAt = 512;
  const auto suffices = [&](int64_t max_frames) {
    limits.max_frames = max_frames;
    return std::ssize(train::split_step(dry_.model(), step_, limits)) <= pieces;
  };
  const int64_t most = std::max(largest_.longest, step_frames_);
  const int64_t stride = std::max<int64_t>(1, (most - largest_.longest) / kLookedAt);
  int64_t good = largest_.longest;
  while (good < most && !suffices(good)) good = std::min(most, good + stride);
  int64_t bad = std::max(largest_.longest - 1, good - stride);
  while (good - bad > 1) {
    const int64_t middle = bad + (good - bad) / 2;
    (suffices(middle) ? good : bad) = middle;
  }
  return good;
}

int64_t Search::num_pieces(const MicroBatchLimits& limits) const {
  int64_t pieces = 1;
  if (limits.max_utterances != MicroBatchLimits::kUnlimited)
    pieces = (most_items_ + limits.max_utterances - 1) / limits.max_utterances;
  if (!limits.is_adaptive || limits.max_frames == MicroBatchLimits::kUnlimited) return pieces;
  const int64_t full = (largest_.frames + limits.max_frames - 1) / limits.max_frames;
  // Some are not quite full; none is empty.
  return std::min(most_items_, pieces - 1 + full * 5 / 4);
}

bool Search::may_sum(int64_t micro_batches) const {
  return dry_.gradient_type() == at::kFloat || micro_batches <= train::kMaxBf16Sums;
}

train::StepSettings Search::settings(const MicroBatchLimits& limits, const LayerTiers& tier) const {
  return {.reduction = request_.config.reduction,
          .tier = tier,
          .drops_layers = false,
          .limits = limits};
}

device::MemoryReport& Search::memory_of(size_t limits, int64_t step) {
  const auto found = memory_.find({limits, step});
  if (found != memory_.end()) return found->second;
  return memory_
      .emplace(std::pair(limits, step), fit_.worst_under(request_.config.effective_batch,
                                                         settings(limits_[limits], tiers_at(step))))
      .first->second;
}

bool Search::fits(size_t limits, int64_t step, const train::StepBudget& budget) {
  return budget.holds(memory_of(limits, step));
}

// Every so-many-th item of the typical step, from the middle of each group of them: a micro-batch
// like those that the step has on average.
std::vector<data::Example> Search::usual_micro_batch(int64_t micro_batches) const {
  std::vector<data::Example> examples;
  for (int64_t place = micro_batches / 2; place < std::ssize(step_); place += micro_batches)
    examples.push_back(step_[static_cast<size_t>(place)]);
  if (examples.empty()) examples.push_back(step_[step_.size() / 2]);
  return examples;
}

// How long a typical step takes: by the number of its micro-batches, whatever lies in them.
const Search::Timed& Search::time_of_step(size_t limits, int64_t step) {
  const auto found = times_.find({limits, step});
  if (found != times_.end()) return found->second;
  const int64_t micro_batches = std::ssize(train::split_step(dry_.model(), step_, limits_[limits]));
  const std::vector<data::Example> examples = usual_micro_batch(micro_batches);
  int64_t frames = 0;
  for (const data::Example& example : examples) frames += dry_.model().num_frames(example.rows);
  const kernels::CostRecorder recorded(&request_.rates);
  dry_.run_step(examples, settings({}, tiers_at(step)));
  const BatchCount count{.all = micro_batches,
                         .alike = static_cast<double>(step_frames_) / static_cast<double>(frames)};
  const Timed timed{.time = time_of(recorded, request_.rates, count),
                    .micro_batches = micro_batches};
  return times_.emplace(std::pair(limits, step), timed).first->second;
}

Way Search::way_of(size_t limits, int64_t step) {
  const Timed& timed = time_of_step(limits, step);
  Way way{.config = request_.config,
          .fit = {.limits = limits_[limits], .worst = memory_of(limits, step)},
          .time = timed.time,
          .step_audio_s = step_length_,
          .micro_batches = timed.micro_batches};
  way.config.tier = tiers_at(step);
  const int64_t max_frames = limits_[limits].max_frames;
  way.config.max_frames = max_frames == MicroBatchLimits::kUnlimited ? 0 : max_frames;
  return way;
}

// The first tier for all layers that fits, from that of `step` on; or for all but the last, of
// which what is kept is needed at once: to compute it again, or to carry it away, may take more.
std::optional<int64_t> Search::first_tier(size_t limits, int64_t step,
                                          const train::StepBudget& budget) {
  const int64_t layers = dry_.model().num_tapes();
  for (int64_t whole = step; whole < num_steps(); whole += layers)
    if (fits(limits, whole, budget)) return whole;
  for (int64_t mix = step + layers - 1; mix < num_steps(); mix += layers)
    if (fits(limits, mix, budget)) return mix;
  return std::nullopt;
}

// The first step that fits, where the tier for all layers at `good` does, and the one before it
// does not: memory falls by about as much with each layer.
int64_t Search::first_fitting(size_t limits, int64_t good, const train::StepBudget& budget) {
  if (good == 0) return good;
  int64_t bad = good - dry_.model().num_tapes();
  for (bool halves = false; good - bad > 1; halves = !halves) {
    const auto above = static_cast<double>(memory_of(limits, bad).high_water - budget.bytes);
    const auto below = static_cast<double>(budget.bytes - memory_of(limits, good).high_water);
    const double share = halves || above <= 0.0 ? 0.5 : above / (above + below);
    const auto steps = static_cast<int64_t>(std::ceil(share * static_cast<double>(good - bad)));
    const int64_t middle = std::clamp(bad + steps, bad + 1, good - 1);
    (fits(limits, middle, budget) ? good : bad) = middle;
  }
  return good;
}

std::optional<Way> Search::best(const train::StepBudget& budget) {
  while (const std::optional<std::pair<size_t, int64_t>> found = find_best(budget)) {
    if (is_confirmed(found->first, found->second, budget))
      return way_of(found->first, found->second);
  }
  return std::nullopt;
}

std::optional<Way> Search::likely_best(const train::StepBudget& budget) {
  const std::optional<std::pair<size_t, int64_t>> found = find_best(budget);
  if (!found) return std::nullopt;
  return way_of(found->first, found->second);
}

bool Search::is_confirmed(size_t limits, int64_t step, const train::StepBudget& budget) {
  if (confirmed_.contains({limits, step})) return true;
  train::EpochAudit audit =
      train::EpochAuditor(dry_, source_, budget)
          .measure(epoch_, settings(limits_[limits], tiers_at(step)), kConfirmed);
  if (!may_sum(audit.most_micro_batches)) {
    // Nor may smaller ones, of which there are more.
    limits_.resize(limits);
    return false;
  }
  device::MemoryReport& worst = audit.fit.worst;
  device::MemoryReport& known = memory_of(limits, step);
  // In a larger budget others may be worse than the first that breaches this one.
  const bool is_whole = budget.holds(worst);
  if (is_whole) confirmed_.insert({limits, step});
  if (!is_whole || worst.high_water > known.high_water) known = std::move(worst);
  return is_whole;
}

// From the smallest micro-batches on, which need to compute least again: what they take is then the
// bar for the larger ones, and the tier they need is the least that those do. What is slower than
// the bar with the tier before it is slower with any that fits.
std::optional<std::pair<size_t, int64_t>> Search::find_best(const train::StepBudget& budget) {
  std::optional<std::pair<size_t, int64_t>> best;
  double best_s = std::numeric_limits<double>::infinity();
  int64_t tier = 0;
  const auto can_be_faster = [&](size_t limits) {
    return !best ||
           seconds_of(limits, std::max<int64_t>(0, tier - dry_.model().num_tapes())) <= best_s;
  };
  for (size_t limits = limits_.size(); limits-- > 0;) {
    if (!can_be_faster(limits)) continue;
    const std::optional<int64_t> fitting = first_tier(limits, tier, budget);
    if (!fitting) break;
    tier = *fitting;
    if (!can_be_faster(limits)) continue;
    const int64_t step = first_fitting(limits, tier, budget);
    const double seconds = seconds_of(limits, step);
    // Of equals the larger: other steps than the typical one have fewer parts then.
    if (seconds > best_s) continue;
    best = {limits, step};
    best_s = seconds;
  }
  return best;
}

// In the largest micro-batches, of which there are fewest, and with nothing computed again.
double Search::least_seconds() {
  return seconds_of(0, 0);
}

std::optional<Way> Search::best_at(Tier tier, const train::StepBudget& budget) {
  const std::span<const Tier> tiers = tiers_of(request_.target);
  const auto place = std::ranges::find(tiers, tier) - tiers.begin();
  const int64_t step = place * dry_.model().num_tapes();
  const auto all = std::views::iota(size_t{0}, limits_.size());
  const auto largest =
      std::ranges::partition_point(all, [&](size_t limits) { return !fits(limits, step, budget); });
  if (largest == all.end()) return std::nullopt;
  return way_of(*largest, step);
}

bool Search::has_items_alone() const {
  const MicroBatchLimits& smallest = limits_.back();
  if (smallest.max_utterances == 1) return true;
  return smallest.is_adaptive && smallest.max_frames <= largest_.longest;
}

int64_t Search::step_of_least(size_t limits, int64_t host_bytes) {
  int64_t least = 0;
  const int64_t layers = dry_.model().num_tapes();
  const auto look_at = [&](int64_t step) {
    const device::MemoryReport &report = memory_of(limits, step), &best = memory_of(limits, least);
    if (report.host_peak <= std::max(host_bytes, best.host_peak) &&
        report.high_water < best.high_water)
      least = step;
  };
  for (int64_t step = layers; step < num_steps(); step += layers) {
    look_at(step - 1);
    look_at(step);
  }
  return least;
}

// What is confirmed may be more than was known; then another may be less.
std::optional<device::MemoryReport> Search::least(int64_t host_bytes) {
  while (is_possible()) {
    const size_t smallest = limits_.size() - 1;
    const int64_t step = step_of_least(smallest, host_bytes);
    if (confirmed_.contains({smallest, step})) return memory_of(smallest, step);
    is_confirmed(smallest, step, {.bytes = device::Arena::kUnlimited});
  }
  return std::nullopt;
}

}  // namespace sotto::plan
