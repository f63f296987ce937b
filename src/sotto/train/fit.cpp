#include "sotto/train/fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/data/micro_batch.h"
#include "sotto/kernels/cross_entropy.h"
#include "sotto/train/evaluation.h"

namespace sotto::train {

namespace {

using data::Example;

// Micro-batches of an epoch that are dry-run, the largest by frames and the largest by labels: all
// of them in a small corpus.
constexpr size_t kAudited = 64;

int64_t num_labels(const Example& example) {
  return std::ssize(example.labels);
}

std::vector<data::ExampleSize> sizes_of(const data::Source& source) {
  std::vector<data::ExampleSize> sizes;
  sizes.reserve(static_cast<size_t>(source.num_items()));
  for (int64_t place = 0; place < source.num_items(); ++place)
    sizes.push_back(source.size_of(place));
  return sizes;
}

int64_t frames_of(const models::Model& model, std::span<const Example> examples) {
  int64_t frames = 0;
  for (const Example& example : examples) frames += model.num_frames(example.rows);
  return frames;
}

// Rows of text as the loss takes most for them: all tokens but one have a target. Where all have
// one, they need not be gathered.
void give_targets(std::vector<Example>& rows) {
  for (Example& row : rows) {
    if (!row.tokens.empty()) row.labels.assign(row.tokens.size(), 0);
  }
  if (rows.front().tokens.size() > 1) rows.front().labels.back() = kernels::CrossEntropy::kNoTarget;
}

// The first of `examples` that reach max_frames together, the last of them cut to end there.
std::vector<Example> fill(const models::Model& model, const data::Source& source,
                          std::span<const Example> examples, int64_t max_frames) {
  std::vector<Example> filled;
  int64_t left = max_frames;
  for (const Example& example : examples) {
    const int64_t frames = model.num_frames(example.rows);
    if (frames > left) {
      // Below that, what is left would be too short for an utterance of its own.
      if (left > 8) {
        const double share = static_cast<double>(left) / static_cast<double>(frames);
        data::ExampleSize size = data::size_of(example);
        size.rows = static_cast<int64_t>(static_cast<double>(example.rows) * share);
        size.segments = std::min(size.segments, size.rows);
        filled.push_back(source.dry_example(size));
      }
      break;
    }
    filled.push_back(example);
    left -= frames;
  }
  return filled;
}

std::string expected_text(const StepBudget& budget) {
  return fmt::format("at most the budget of {}", format_bytes(budget.named_for(budget.bytes)));
}

// Where frames are limited, labels may lie denser in other utterances: their number is limited too,
// to what the largest micro-batch has.
MicroBatchLimits with_labels_of(std::span<const Example> largest, MicroBatchLimits limits) {
  if (limits.max_frames == MicroBatchLimits::kUnlimited) return limits;
  int64_t labels = 0;
  for (const Example& example : largest) labels += num_labels(example);
  limits.max_labels = std::max(labels, num_labels(largest.front()));
  return limits;
}

}  // namespace

BudgetFit::BudgetFit(DryRun& dry, const data::Source& source, const StepBudget& budget)
    : dry_(dry), source_(source), budget_(budget) {
  SOTTO_ASSERT(source.num_items() > 0, "nothing to fit");
}

Fit BudgetFit::find_limits(const data::EffectiveBatch& batch, const StepSettings& settings) {
  const std::vector<Example> step = largest_batch(batch, settings.limits);
  const device::MemoryReport whole = run_one(step, settings.tier);
  if (fits(whole)) return {.limits = with_labels_of(step, settings.limits), .worst = whole};
  if (!settings.limits.is_adaptive) refuse(step, whole, settings);

  device::MemoryReport worst = run_one({step.front()}, settings.tier);
  if (!fits(worst)) refuse({step.front()}, worst, settings);
  int64_t good = frames_of(dry_.model(), {&step.front(), 1});
  int64_t bad = frames_of(dry_.model(), step);
  while (bad - good > std::max<int64_t>(1, good / 200)) {
    const int64_t middle = good + (bad - good) / 2;
    const device::MemoryReport report =
        run_one(fill(dry_.model(), source_, step, middle), settings.tier);
    if (fits(report)) {
      good = middle;
      worst = report;
    } else {
      bad = middle;
    }
  }
  MicroBatchLimits limits = settings.limits;
  limits.max_frames = good;
  return {.limits = with_labels_of(fill(dry_.model(), source_, step, good), limits),
          .worst = worst};
}

device::MemoryReport BudgetFit::worst_under(const data::EffectiveBatch& batch,
                                            const StepSettings& settings) {
  return run_one(largest_batch(batch, settings.limits), settings.tier);
}

BudgetFit::LargestStep BudgetFit::measure_largest(const data::EffectiveBatch& batch) {
  const std::vector<Example> step = largest_step(batch);
  return {.frames = frames_of(dry_.model(), step),
          .longest = frames_of(dry_.model(), {&step.front(), 1})};
}

int64_t BudgetFit::most_items(const data::EffectiveBatch& batch) {
  if (batch.kind == data::EffectiveBatch::Kind::kUtterances)
    return std::min(batch.utterances, source_.num_items());
  sort_sizes();
  int64_t count = 0;
  double seconds = 0.0;
  for (auto length = sorted_lengths_.rbegin();
       length != sorted_lengths_.rend() && seconds <= batch.seconds; ++length, ++count)
    seconds += double{*length};
  return count;
}

double BudgetFit::longest_fitting_s(const StepSettings& settings) {
  std::vector<data::ExampleSize> sizes = sizes_of(source_);
  int64_t most_labels = 0;
  for (const data::ExampleSize& size : sizes) most_labels = std::max(most_labels, size.labels);
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t place) { return sizes[place].rows; });
  const auto first_bad = std::partition_point(order.begin(), order.end(), [&](size_t place) {
    data::ExampleSize size = sizes[place];
    size.labels = most_labels;
    return fits(run_one({source_.dry_example(size)}, settings.tier));
  });
  if (first_bad == order.begin()) return 0.0;
  return double{source_.lengths()[*std::prev(first_bad)]};
}

EpochAudit BudgetFit::measure(const data::EpochOrder& epoch, const StepSettings& settings,
                              size_t count) {
  const Worst worst = find_worst(epoch, settings, count);
  return {.fit = {.limits = settings.limits, .worst = worst.report},
          .num_steps = epoch.num_steps(),
          .worst_step = worst.candidate.step + 1,
          .most_micro_batches = worst.most_micro_batches};
}

EpochAudit BudgetFit::audit(const data::EpochOrder& epoch, const StepSettings& settings) {
  StepSettings lowered = settings;
  while (true) {
    const Worst worst = find_worst(epoch, lowered, kAudited);
    check_micro_batches(dry_.gradient_type(), worst.most_micro_batches);
    if (worst.all_fit) {
      return {.fit = {.limits = lowered.limits, .worst = worst.report},
              .num_steps = epoch.num_steps(),
              .worst_step = worst.candidate.step + 1,
              .most_micro_batches = worst.most_micro_batches};
    }
    if (!lowered.limits.is_adaptive || worst.candidate.utterances == 1)
      refuse_step(epoch, worst.candidate, lowered.limits, worst.report);
    int64_t& frames = lowered.limits.max_frames;
    frames = std::min(frames, worst.candidate.frames) * 19 / 20;
  }
}

std::vector<int64_t> BudgetFit::worst_steps(const data::EpochOrder& epoch,
                                            const StepSettings& settings, size_t count) {
  std::set<int64_t> candidates;
  for (const Candidate& candidate :
       largest_of(candidates_of(epoch, settings.limits), count, /*is_one_a_step=*/true))
    candidates.insert(candidate.step);
  std::vector<std::pair<int64_t, int64_t>> steps;  // by what they take
  for (const int64_t step : candidates) {
    std::vector<Example> examples;
    for (const uint32_t place : epoch.utterances(step)) examples.push_back(source_.dry_at(place));
    steps.emplace_back(dry_.run_step(examples, settings).peak, step);
  }
  std::ranges::stable_sort(steps, std::greater<>(), &std::pair<int64_t, int64_t>::first);
  if (steps.size() > count) steps.resize(count);
  std::vector<int64_t> worst;
  for (const auto& [bytes, step] : steps) worst.push_back(step);
  return worst;
}

std::vector<BudgetFit::Candidate> BudgetFit::largest_of(std::vector<Candidate> candidates,
                                                        size_t count, bool is_one_a_step) {
  std::vector<Candidate> chosen;
  std::set<std::pair<int64_t, size_t>> seen;
  for (int64_t Candidate::* const size :
       {&Candidate::frames, &Candidate::labels, &Candidate::segments, &Candidate::padded}) {
    // Of speech there are no segments.
    if (std::ranges::all_of(candidates, [&](const Candidate& one) { return one.*size == 0; }))
      continue;
    std::ranges::stable_sort(candidates, std::greater<>(), size);
    std::set<int64_t> steps;
    size_t num_taken = 0;
    for (const Candidate& candidate : candidates) {
      if (num_taken == count) break;
      if (is_one_a_step && !steps.insert(candidate.step).second) continue;
      ++num_taken;
      if (seen.insert({candidate.step, candidate.number}).second) chosen.push_back(candidate);
    }
  }
  return chosen;
}

BudgetFit::Worst BudgetFit::find_worst(const data::EpochOrder& epoch, const StepSettings& settings,
                                       size_t count) {
  const std::vector<Candidate> candidates = candidates_of(epoch, settings.limits);
  Worst worst;
  for (const Candidate& candidate : candidates)
    worst.most_micro_batches =
        std::max(worst.most_micro_batches, static_cast<int64_t>(candidate.number) + 1);
  for (const Candidate& candidate : largest_of(candidates, count, /*is_one_a_step=*/false)) {
    device::MemoryReport report =
        run_one(examples_of(epoch, candidate, settings.limits), settings.tier);
    worst.all_fit = worst.all_fit && fits(report);
    if (report.high_water <= worst.report.high_water) continue;
    worst.report = std::move(report);
    worst.candidate = candidate;
  }
  return worst;
}

// The utterances of a micro-batch that does not fit and cannot be split.
void BudgetFit::refuse_step(const data::EpochOrder& epoch, const Candidate& candidate,
                            const MicroBatchLimits& limits, const device::MemoryReport& needed) {
  constexpr size_t kNamed = 8;
  const std::span<const uint32_t> step = epoch.utterances(candidate.step);
  const std::vector<int64_t> places = split(step, limits)[candidate.number];
  std::string who;
  for (size_t i = 0; i < std::min(kNamed, places.size()); ++i) {
    const uint32_t place = step[static_cast<size_t>(places[i])];
    who += (i == 0 ? "" : ", ") + source_.where(source_.utterance_at(place));
  }
  if (places.size() > kNamed) who += fmt::format(" and {} more", places.size() - kNamed);
  const int64_t bytes = budget_.named_for(needed.high_water);
  throw Infeasible(
      {.attempted =
           fmt::format("checking step {} of an epoch before it starts", candidate.step + 1),
       .found = fmt::format("{} for a micro-batch of {}", format_bytes(bytes), who),
       .expected = expected_text(budget_),
       .hint = fmt::format("--memory {} would do; or lower micro_batch, or leave long utterances "
                           "out: data.too_large: skip.",
                           format_mebibytes(bytes))});
}

std::vector<std::vector<int64_t>> BudgetFit::split(std::span<const uint32_t> step,
                                                   const MicroBatchLimits& limits) const {
  std::vector<data::ExampleSize> sizes;
  for (const uint32_t place : step) sizes.push_back(source_.size_of(place));
  return split_sizes(dry_.model(), sizes, limits,
                     [&](size_t i) { return source_.where(source_.utterance_at(step[i])); });
}

std::vector<Example> BudgetFit::examples_of(const data::EpochOrder& epoch,
                                            const Candidate& candidate,
                                            const MicroBatchLimits& limits) const {
  const std::span<const uint32_t> step = epoch.utterances(candidate.step);
  const std::vector<std::vector<int64_t>> micro_batches = split(step, limits);
  std::vector<Example> examples;
  for (const int64_t i : micro_batches[candidate.number])
    examples.push_back(source_.dry_at(step[static_cast<size_t>(i)]));
  return examples;
}

std::vector<BudgetFit::Candidate> BudgetFit::candidates_of(const data::EpochOrder& epoch,
                                                           const MicroBatchLimits& limits) const {
  std::vector<Candidate> candidates;
  for (int64_t number = 0; number < epoch.num_steps(); ++number) {
    const std::span<const uint32_t> step = epoch.utterances(number);
    const std::vector<std::vector<int64_t>> micro_batches = split(step, limits);
    size_t of_step = 0;
    for (const std::vector<int64_t>& micro_batch : micro_batches) {
      Candidate& candidate =
          candidates.emplace_back(Candidate{.step = number, .number = of_step++});
      int64_t longest = 0;
      for (const int64_t i : micro_batch) {
        const data::ExampleSize size = source_.size_of(step[static_cast<size_t>(i)]);
        const int64_t frames = dry_.model().num_frames(size.rows);
        longest = std::max(longest, frames);
        ++candidate.utterances;
        candidate.frames += frames;
        candidate.labels += size.labels;
        candidate.segments += size.segments;
      }
      candidate.padded = candidate.utterances * longest;
    }
  }
  return candidates;
}

device::MemoryReport BudgetFit::run_one(const std::vector<Example>& examples,
                                        const nn::LayerTiers& tier) {
  return dry_.run_step(examples, {.tier = tier, .drops_layers = false});
}

std::vector<Example> BudgetFit::largest_step(const data::EffectiveBatch& batch) {
  sort_sizes();
  const bool counts_seconds = batch.kind == data::EffectiveBatch::Kind::kSeconds;
  std::vector<Example> step;
  double seconds = 0.0;
  for (size_t i = 0; i < sorted_sizes_.size(); ++i) {
    // A step of seconds may end behind them, by less than an utterance.
    const bool is_full =
        counts_seconds ? seconds > batch.seconds : std::ssize(step) >= batch.utterances;
    if (is_full) break;
    step.push_back(source_.dry_example(sorted_sizes_[i]));
    if (counts_seconds) seconds += double{sorted_lengths_[i]};
  }
  give_targets(step);
  return step;
}

void BudgetFit::sort_sizes() {
  if (!sorted_sizes_.empty()) return;
  sorted_sizes_ = sizes_of(source_);
  const auto sort_downwards = [&](int64_t data::ExampleSize::* member) {
    std::vector<int64_t> values;
    values.reserve(sorted_sizes_.size());
    for (const data::ExampleSize& size : sorted_sizes_) values.push_back(size.*member);
    std::ranges::sort(values, std::greater<>());
    for (size_t i = 0; i < values.size(); ++i) sorted_sizes_[i].*member = values[i];
  };
  sort_downwards(&data::ExampleSize::rows);
  sort_downwards(&data::ExampleSize::labels);
  sort_downwards(&data::ExampleSize::segments);
  sorted_lengths_ = source_.lengths();
  std::ranges::sort(sorted_lengths_, std::greater<>());
}

std::vector<Example> BudgetFit::largest_batch(const data::EffectiveBatch& batch,
                                              const MicroBatchLimits& limits) {
  std::vector<Example> step = largest_step(batch);
  if (std::ssize(step) > limits.max_utterances)
    step.resize(static_cast<size_t>(limits.max_utterances));
  if (!limits.is_adaptive) return step;
  // One that is longer than the limit alone is refused when the step is split.
  const int64_t longest = frames_of(dry_.model(), {&step.front(), 1});
  return fill(dry_.model(), source_, step, std::max(limits.max_frames, longest));
}

std::string BudgetFit::hint_for(const std::vector<Example>& least, int64_t needed_bytes,
                                const StepSettings& settings) {
  std::string hint =
      fmt::format("--memory {} would do.", format_mebibytes(budget_.named_for(needed_bytes)));
  if (settings.tier != nn::Tier::kBlock && !settings.tier.has(nn::Tier::kHost)) {
    const int64_t with_block = run_one(least, nn::Tier::kBlock).high_water;
    if (with_block < needed_bytes)
      hint += fmt::format(" With tier: block it would be {}.",
                          format_mebibytes(budget_.named_for(with_block)));
  }
  if (!settings.limits.is_adaptive) {
    hint += " Or lower micro_batch, or let lengths decide: adaptive_batching: true.";
  } else if (least.front().tokens.empty()) {
    hint += " Or leave long utterances out: data.too_large: skip.";
  } else {
    hint += " Or shorten the rows: data.row_tokens.";
  }
  return hint;
}

void BudgetFit::refuse(const std::vector<Example>& least, const device::MemoryReport& needed,
                       const StepSettings& settings) {
  const char* what = least.front().tokens.empty() ? "utterance" : "row of text";
  const std::string who = least.size() == 1
                              ? fmt::format("the longest {} alone needs", what)
                              : fmt::format("the {} longest {}s need", least.size(), what);
  if (needed.high_water <= budget_.bytes) {
    throw Infeasible(
        {.attempted = "fitting the run into the host's memory",
         .found = fmt::format("{} {} there", who, format_bytes(needed.host_peak)),
         .expected = fmt::format("at most {}", format_bytes(budget_.host_bytes)),
         .hint = fmt::format("--host-memory {} would do, if the machine has as much; or keep "
                             "more on the device: tier: block, optimizer.state: device.",
                             format_mebibytes(needed.host_peak))});
  }
  throw Infeasible(
      {.attempted = "fitting the run into its budget",
       .found = fmt::format("{} {}", who, format_bytes(budget_.named_for(needed.high_water))),
       .expected = expected_text(budget_),
       .hint = hint_for(least, needed.high_water, settings)});
}

Fit fit_recognition(DryRun& dry, const data::Source& source, const StepBudget& budget,
                    const MicroBatchLimits& most) {
  std::vector<int64_t> order(static_cast<size_t>(source.num_items()));
  std::iota(order.begin(), order.end(), int64_t{0});
  const size_t count = std::min(order.size(), static_cast<size_t>(kLoadedAtOnce));
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count),
                            std::greater<>(),
                            [&](int64_t place) { return source.size_of(place).rows; });
  std::vector<Example> examples;
  for (size_t i = 0; i < count; ++i) examples.push_back(source.dry_at(order[i]));
  give_targets(examples);
  const int64_t longest = frames_of(dry.model(), {examples.data(), 1});
  int64_t frames = std::max(longest, std::min(most.max_frames, frames_of(dry.model(), examples)));
  while (true) {
    const device::MemoryReport report = dry.recognise(fill(dry.model(), source, examples, frames));
    const int64_t needed = report.high_water;
    if (needed <= budget.bytes) return {.limits = {.max_frames = frames}, .worst = report};
    if (frames == longest) {
      const int64_t bytes = budget.named_for(needed);
      throw Infeasible(
          {.attempted = "fitting the recognition into the budget",
           .found = fmt::format("the longest item alone needs {}", format_bytes(bytes)),
           .expected = expected_text(budget),
           .hint = fmt::format("--memory {} would do.", format_mebibytes(bytes))});
    }
    frames = std::max(longest, frames / 2);
  }
}

}  // namespace sotto::train
