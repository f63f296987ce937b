#include "sotto/plan/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ranges>

#include "sotto/core/error.h"
#include "sotto/train/step/stages.h"

namespace sotto::plan {

namespace {

using nn::LayerTiers;
using nn::Tier;

// Every number of micro-batches up to kAllPieces is tried; beyond it, the number grows by one part
// in kMorePieces.
constexpr int64_t kAllPieces = 32;
constexpr int64_t kMorePieces = 8;

// Number of largest micro-batches of an epoch, by each measure, that confirm a point whose limits
// the audit of a run may lower.
constexpr size_t kConfirmed = 8;

// Tiers in descending order of memory kept.
constexpr std::array kDownwards = {Tier::kNone, Tier::kNorms, Tier::kFfn,
                                   Tier::kQkv,  Tier::kBlock, Tier::kHost};

int64_t step_of_median_length(const data::EpochOrder& epoch, const std::vector<float>& lengths) {
  std::vector<std::pair<double, int64_t>> steps;
  for (int64_t step = 0; step < epoch.num_steps(); ++step) {
    double length = 0.0;
    for (const uint32_t position : epoch.utterances(step)) length += double{lengths[position]};
    steps.emplace_back(length, step);
  }
  const auto middle = steps.begin() + std::ssize(steps) / 2;
  std::ranges::nth_element(steps, middle);
  return middle->second;
}

int64_t frames_of(const models::Model& model, const data::Example& example) {
  return model.size_of(data::size_of(example)).frames;
}

}  // namespace

PlannedEpoch::PlannedEpoch(const train::RunConfig& config, const data::Source& source) {
  if (source.num_items() == 0)
    throw ConfigError({.attempted = "planning a run",
                       .found = fmt::format("{} has no utterances", source.name()),
                       .expected = "at least one to plan for"});
  const std::vector<float> lengths = source.lengths();
  order =
      data::Sampler(
          train::sampler_options(config, train::largest_stage(config, source.num_items())), lengths)
          .epoch(0);
  median_step = step_of_median_length(order, lengths);
}

Search::Search(const SearchRequest& request, const data::Source& source, const PlannedEpoch& epoch)
    : request_(request),
      source_(source),
      dry_(request.config, request.shape, train::DryRun::Purpose::kTraining, request.target),
      fit_(dry_, source, {.bytes = device::Arena::kUnlimited}),
      epoch_(epoch),
      largest_(fit_.measure_largest(request.config.effective_batch)),
      most_items_(fit_.most_items(request.config.effective_batch)) {
  const std::vector<float> lengths = source.lengths();
  for (const uint32_t position : epoch.order.utterances(epoch.median_step)) {
    step_.push_back(source.dry_at(position));
    step_length_ += double{lengths[position]};
  }
  std::ranges::stable_sort(step_, std::greater<>(), &data::Example::rows);
  for (const data::Example& example : step_) step_frames_ += frames_of(dry_.model(), example);
  limits_ = limits_to_try();
}

// On a CPU, host memory is the same memory: tier `host` is excluded.
std::span<const Tier> tiers_of(const device::Target& target) {
  const std::span<const Tier> all = kDownwards;
  return target.is_cuda() ? all : all.first(all.size() - 1);
}

int64_t Search::num_row_steps() const {
  if (!request_.finds_tier) return 1;
  return (std::ssize(tiers_of(request_.target)) - 1) * dry_.model().num_tapes() + 1;
}

LayerTiers Search::tiers_at(int64_t row_step) const {
  if (!request_.finds_tier) return request_.config.tier;
  const int64_t layers = dry_.model().num_tapes();
  const auto tier = static_cast<size_t>(row_step / layers);
  const int64_t first = row_step % layers;
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

// Packing may by chance need fewer micro-batches with a smaller limit: kLookedAt values are tried,
// then those before the first that suffices.
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
  // Some are not completely full; none is empty.
  return std::min(most_items_, pieces - 1 + full * 5 / 4);
}

bool Search::may_sum(int64_t micro_batches) const {
  return dry_.gradient_type() == at::kFloat || micro_batches <= train::kMaxBf16Sums;
}

train::StepSettings Search::settings_of(const Point& point) const {
  return {.reduction = request_.config.reduction,
          .tier = tiers_at(point.row_step),
          .drops_layers = false,
          .limits = limits_at(point.limits)};
}

device::MemoryReport& Search::memory_of(const Point& point) {
  const auto found = memory_.find(point);
  if (found != memory_.end()) return found->second;
  return memory_
      .emplace(point, fit_.worst_under(request_.config.effective_batch, settings_of(point)))
      .first->second;
}

bool Search::fits(const Point& point, const train::StepBudget& budget) {
  return budget.holds(memory_of(point));
}

// Takes every micro_batches-th item of the typical step, from the middle of each group: a
// micro-batch with the step's average composition.
std::vector<data::Example> Search::usual_micro_batch(int64_t micro_batches) const {
  std::vector<data::Example> examples;
  for (int64_t position = micro_batches / 2; position < std::ssize(step_);
       position += micro_batches)
    examples.push_back(step_[static_cast<size_t>(position)]);
  if (examples.empty()) examples.push_back(step_[step_.size() / 2]);
  return examples;
}

// Returns the time of a typical step: it depends on the number of its micro-batches, not on their
// contents.
const Search::Timed& Search::time_of_step(const Point& point) {
  const auto found = times_.find(point);
  if (found != times_.end()) return found->second;
  train::StepSettings settings = settings_of(point);
  const int64_t micro_batches = std::ssize(train::split_step(dry_.model(), step_, settings.limits));
  const std::vector<data::Example> examples = usual_micro_batch(micro_batches);
  int64_t frames = 0;
  for (const data::Example& example : examples) frames += frames_of(dry_.model(), example);
  const kernels::CostRecorder recorded(&request_.rates);
  settings.limits = {};
  dry_.run_step(examples, settings);
  const BatchCount count{.all = micro_batches,
                         .alike = static_cast<double>(step_frames_) / static_cast<double>(frames)};
  const Timed timed{.time = time_of(recorded, request_.rates, count),
                    .micro_batches = micro_batches};
  return times_.emplace(point, timed).first->second;
}

Candidate Search::candidate_at(const Point& point) {
  const MicroBatchLimits& limits = limits_at(point.limits);
  const Timed& timed = time_of_step(point);
  Candidate candidate{.config = request_.config,
                      .fit = {.limits = limits, .worst = memory_of(point)},
                      .time = timed.time,
                      .step_audio_s = step_length_,
                      .micro_batches = timed.micro_batches};
  candidate.config.tier = tiers_at(point.row_step);
  candidate.config.max_frames =
      limits.max_frames == MicroBatchLimits::kUnlimited ? 0 : limits.max_frames;
  return candidate;
}

// Positions within a tier, other than its last, that may need less memory than their neighbours.
// Activations of the last layer are needed immediately: recomputing or offloading them may take
// more. In heterogeneous stacks the next tier may save memory in one stack, and increase it in
// another.
std::vector<int64_t> Search::marks_in_tier() const {
  const std::vector<models::NetworkLayer>& layers = dry_.model().outline().layers;
  std::vector<int64_t> marks = {std::ssize(layers) - 1};
  for (size_t layer = 1; layer < layers.size(); ++layer)
    if (layers[layer].stack != layers[layer - 1].stack)
      marks.push_back(static_cast<int64_t>(layer));
  return marks;
}

// Returns the first tier for all layers that fits, starting from that of `from`; or a position up
// to a mark.
std::optional<Search::Point> Search::first_tier(const Point& from,
                                                const train::StepBudget& budget) {
  const int64_t layers = dry_.model().num_tapes();
  std::vector<int64_t> offsets = {0};
  for (const int64_t mark : marks_in_tier()) offsets.push_back(mark);
  for (const int64_t offset : offsets) {
    for (int64_t row_step = from.row_step + offset; row_step < num_row_steps();
         row_step += layers) {
      const Point point{.limits = from.limits, .row_step = row_step};
      if (fits(point, budget)) return point;
    }
  }
  return std::nullopt;
}

// Returns the first position that fits, given that `good` with one tier for all layers fits and the
// previous tier does not: memory decreases by about the same amount with each layer.
Search::Point Search::first_fitting(const Point& good, const train::StepBudget& budget) {
  if (good.row_step == 0) return good;
  Point fitting = good, breaching = good;
  breaching.row_step -= dry_.model().num_tapes();
  for (bool halves = false; fitting.row_step - breaching.row_step > 1; halves = !halves) {
    const int64_t distance = fitting.row_step - breaching.row_step;
    const auto above = static_cast<double>(memory_of(breaching).high_water - budget.bytes);
    const auto below = static_cast<double>(budget.bytes - memory_of(fitting).high_water);
    const double share = halves || above <= 0.0 ? 0.5 : above / (above + below);
    const auto steps = static_cast<int64_t>(std::ceil(share * static_cast<double>(distance)));
    Point middle = good;
    middle.row_step = breaching.row_step + std::clamp<int64_t>(steps, 1, distance - 1);
    (fits(middle, budget) ? fitting : breaching) = middle;
  }
  return fitting;
}

std::optional<Candidate> Search::best(const train::StepBudget& budget) {
  while (const std::optional<Point> found = find_best(budget)) {
    if (is_confirmed(*found, budget)) return candidate_at(*found);
  }
  return std::nullopt;
}

std::optional<Candidate> Search::likely_best(const train::StepBudget& budget) {
  const std::optional<Point> found = find_best(budget);
  if (!found) return std::nullopt;
  return candidate_at(*found);
}

bool Search::is_confirmed(const Point& point, const train::StepBudget& budget) {
  if (confirmed_.contains(point)) return true;
  // Where the audit of a run cannot lower the limits it refuses: this must not find less than it.
  const size_t count =
      is_smallest(limits_at(point.limits)) ? train::EpochAuditor::kAudited : kConfirmed;
  train::EpochAudit audit =
      train::EpochAuditor(dry_, source_, budget).measure(epoch_.order, settings_of(point), count);
  if (!may_sum(audit.most_micro_batches)) {
    // Smaller micro-batches, of which there are more, are excluded too.
    limits_.resize(static_cast<size_t>(point.limits));
    return false;
  }
  device::MemoryReport& worst = audit.fit.worst;
  device::MemoryReport& known = memory_of(point);
  // With a larger budget others may be worse than the first one that exceeds this budget.
  const bool is_whole = budget.holds(worst);
  if (is_whole) confirmed_.insert(point);
  if (!is_whole || worst.high_water > known.high_water) known = std::move(worst);
  return is_whole;
}

// Starts with the smallest micro-batches, which need the least recomputation: their time is the
// bound for larger ones, and their tier the minimum that those need. If a point is slower than
// the bound with a tier that keeps more, it is slower with any that fits.
std::optional<Search::Point> Search::find_best(const train::StepBudget& budget) {
  std::optional<Point> best;
  double best_s = std::numeric_limits<double>::infinity();
  int64_t tier = 0;
  const auto can_be_faster = [&](LimitsIndex limits) {
    const int64_t before = std::max<int64_t>(0, tier - dry_.model().num_tapes());
    return !best || seconds_of({.limits = limits, .row_step = before}) <= best_s;
  };
  for (size_t index = limits_.size(); index-- > 0;) {
    const LimitsIndex limits{index};
    if (!can_be_faster(limits)) continue;
    const std::optional<Point> fitting = first_tier({.limits = limits, .row_step = tier}, budget);
    if (!fitting) break;
    tier = fitting->row_step;
    if (!can_be_faster(limits)) continue;
    const Point point = first_fitting(*fitting, budget);
    const double seconds = seconds_of(point);
    // Among equals the larger is preferred: steps other than the typical one then have fewer parts.
    if (seconds > best_s) continue;
    best = point;
    best_s = seconds;
  }
  return best;
}

// Uses the largest, hence fewest, micro-batches, without recomputation.
double Search::least_seconds() {
  return seconds_of({});
}

std::optional<Candidate> Search::best_at(Tier tier, const train::StepBudget& budget) {
  const std::span<const Tier> tiers = tiers_of(request_.target);
  const auto position = std::ranges::find(tiers, tier) - tiers.begin();
  const auto at = [&](size_t index) {
    return Point{.limits = LimitsIndex{index}, .row_step = position * dry_.model().num_tapes()};
  };
  const auto all = std::views::iota(size_t{0}, limits_.size());
  const auto largest =
      std::ranges::partition_point(all, [&](size_t index) { return !fits(at(index), budget); });
  if (largest == all.end()) return std::nullopt;
  return candidate_at(at(*largest));
}

bool Search::is_smallest(const MicroBatchLimits& limits) const {
  return !limits.is_adaptive || limits.max_utterances == 1 || limits.max_frames <= largest_.longest;
}

bool Search::has_items_alone() const {
  const MicroBatchLimits& smallest = limits_.back();
  return smallest.max_utterances == 1 || (smallest.is_adaptive && is_smallest(smallest));
}

Search::Point Search::least_with(LimitsIndex limits, int64_t host_bytes) {
  Point least{.limits = limits};
  const int64_t layers = dry_.model().num_tapes();
  const std::vector<int64_t> marks = marks_in_tier();
  const auto look_at = [&](int64_t row_step) {
    const Point point{.limits = limits, .row_step = row_step};
    const device::MemoryReport &report = memory_of(point), &best = memory_of(least);
    if (report.host_peak <= std::max(host_bytes, best.host_peak) &&
        report.high_water < best.high_water)
      least = point;
  };
  for (int64_t row_step = layers; row_step < num_row_steps(); row_step += layers) {
    for (const int64_t mark : marks) look_at(row_step - layers + mark);
    look_at(row_step);
  }
  return least;
}

// The confirmed value may be larger than the known one; then another point may be smaller.
std::optional<Search::Least> Search::least(int64_t host_bytes) {
  while (is_possible()) {
    const Point found = least_with(last_limits(), host_bytes);
    if (confirmed_.contains(found)) {
      Least least{.config = request_.config, .memory = memory_of(found)};
      least.config.tier = tiers_at(found.row_step);
      return least;
    }
    is_confirmed(found, {.bytes = device::Arena::kUnlimited});
  }
  return std::nullopt;
}

device::MemoryReport Search::likely_least(int64_t host_bytes) {
  return memory_of(least_with(last_limits(), host_bytes));
}

}  // namespace sotto::plan
