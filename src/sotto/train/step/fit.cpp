#include "sotto/train/step/fit.h"

#include <algorithm>
#include <numeric>

#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/kernels/loss/cross_entropy.h"

namespace sotto::train {

namespace {

using data::Example;

int64_t num_labels(const Example& example) {
  return std::ssize(example.labels);
}

std::vector<data::ExampleSize> sizes_of(const data::Source& source) {
  std::vector<data::ExampleSize> sizes;
  sizes.reserve(static_cast<size_t>(source.num_items()));
  for (int64_t index = 0; index < source.num_items(); ++index)
    sizes.push_back(source.size_of(index));
  return sizes;
}

int64_t frames_of(const models::Model& model, const Example& example) {
  return model.size_of(data::size_of(example)).frames;
}

int64_t frames_of(const models::Model& model, std::span<const Example> examples) {
  int64_t frames = 0;
  for (const Example& example : examples) frames += frames_of(model, example);
  return frames;
}

// Gives rows of text the targets for which the loss takes most memory: all tokens but one have a
// target. Where all have one, no gathering is needed.
void give_targets(std::vector<Example>& rows) {
  for (Example& row : rows) {
    if (data::is_text(row)) row.labels.assign(row.tokens.size(), 0);
  }
  if (rows.front().tokens.size() > 1) rows.front().labels.back() = kernels::CrossEntropy::kNoTarget;
}

// With fewer frames left, the rest would be too short to be an utterance.
constexpr int64_t kLeastRest = 8;

// Returns the first of `examples` that together reach max_frames, the last one shortened to fit. It
// is left out where the network counts a shorter one like a whole one.
std::vector<Example> fill(const models::Model& model, const data::Source& source,
                          std::span<const Example> examples, int64_t max_frames) {
  std::vector<Example> filled;
  int64_t left = max_frames;
  for (const Example& example : examples) {
    const int64_t frames = frames_of(model, example);
    if (frames > left) {
      if (left > kLeastRest) {
        const double share = static_cast<double>(left) / static_cast<double>(frames);
        data::ExampleSize size = data::size_of(example);
        size.rows = static_cast<int64_t>(static_cast<double>(example.rows) * share);
        size.segments = std::min(size.segments, size.rows);
        Example rest = source.dry_example(size);
        if (frames_of(model, rest) <= left) filled.push_back(std::move(rest));
      }
      break;
    }
    filled.push_back(example);
    left -= frames;
  }
  return filled;
}

// Gives the i-th longest utterance the i-th most labels of all.
void give_most_labels(std::vector<Example>& examples, const data::Source& source) {
  std::vector<int64_t> labels;
  for (const data::ExampleSize& size : sizes_of(source)) labels.push_back(size.labels);
  const auto count = static_cast<std::ptrdiff_t>(examples.size());
  std::ranges::partial_sort(labels, labels.begin() + count, std::greater<>());
  for (size_t i = 0; i < examples.size(); ++i)
    examples[i].labels.resize(static_cast<size_t>(labels[i]));
}

// Where frames are limited, other utterances may have more labels per frame: labels and nodes are
// limited too, to their number in the largest micro-batch.
MicroBatchLimits with_labels_of(const models::Model& model, std::span<const Example> largest,
                                MicroBatchLimits limits) {
  if (limits.max_frames == MicroBatchLimits::kUnlimited) return limits;
  int64_t labels = 0;
  int64_t nodes = 0;
  for (const Example& example : largest) {
    labels += num_labels(example);
    nodes += model.size_of(data::size_of(example)).nodes;
  }
  // A corpus without labels needs no memory for them, but a limit is at least 1.
  limits.max_labels = std::max(int64_t{1}, labels);
  if (nodes > 0) limits.max_nodes = nodes;
  return limits;
}

}  // namespace

BudgetFit::BudgetFit(DryRun& dry, const data::Source& source, const StepBudget& budget)
    : dry_(dry), source_(source), budget_(budget) {
  SOTTO_ASSERT(source.num_items() > 0, "nothing to fit");
}

Fit BudgetFit::find_limits(const data::EffectiveBatch& batch, const StepSettings& settings) {
  const std::vector<Example> step = largest_batch(batch, settings.limits);
  const device::MemoryReport whole = dry_.run_micro_batch(step, settings.tier);
  if (budget_.holds(whole))
    return {.limits = with_labels_of(dry_.model(), step, settings.limits), .worst = whole};
  if (!settings.limits.is_adaptive) refuse(step, whole, settings);

  device::MemoryReport worst = dry_.run_micro_batch({step.data(), 1}, settings.tier);
  if (!budget_.holds(worst)) refuse({step.front()}, worst, settings);
  int64_t good = frames_of(dry_.model(), {&step.front(), 1});
  int64_t bad = frames_of(dry_.model(), step);
  while (bad - good > std::max<int64_t>(1, good / 200)) {
    const int64_t middle = good + (bad - good) / 2;
    const std::vector<Example> filled = fill(dry_.model(), source_, step, middle);
    const device::MemoryReport report = dry_.run_micro_batch(filled, settings.tier);
    if (budget_.holds(report)) {
      good = middle;
      worst = report;
    } else {
      // Where no rest fits, whole utterances are too much already.
      const int64_t frames = frames_of(dry_.model(), filled);
      bad = middle - frames > kLeastRest ? frames : middle;
    }
  }
  MicroBatchLimits limits = settings.limits;
  limits.max_frames = good;
  const std::vector<Example> largest = fill(dry_.model(), source_, step, good);
  return {.limits = with_labels_of(dry_.model(), largest, limits), .worst = worst};
}

device::MemoryReport BudgetFit::worst_under(const data::EffectiveBatch& batch,
                                            const StepSettings& settings) {
  return dry_.run_micro_batch(largest_batch(batch, settings.limits), settings.tier);
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

double BudgetFit::longest_fitting_s(const StepSettings& settings, double known_s) {
  std::vector<data::ExampleSize> sizes = sizes_of(source_);
  const std::vector<float> lengths = source_.lengths();
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t index) { return sizes[index].rows; });
  // Each counts with the maximum number of labels up to its length, so that fitting is monotonic in
  // length.
  int64_t most_labels = 0;
  for (const size_t index : order)
    most_labels = sizes[index].labels = std::max(most_labels, sizes[index].labels);
  const auto fits = [&](size_t index) {
    const Example alone = source_.dry_example(sizes[index]);
    return budget_.holds(dry_.run_micro_batch({&alone, 1}, settings.tier));
  };
  const auto first =
      std::ranges::find_if(order, [&](size_t index) { return double{lengths[index]} > known_s; });
  if (first == order.end() || !fits(*first)) return known_s;
  const auto first_bad = std::partition_point(first, order.end(), fits);
  return double{lengths[*std::prev(first_bad)]};
}

std::vector<Example> BudgetFit::largest_step(const data::EffectiveBatch& batch) {
  sort_sizes();
  const bool counts_seconds = batch.kind == data::EffectiveBatch::Kind::kSeconds;
  std::vector<Example> step;
  double seconds = 0.0;
  for (size_t i = 0; i < sorted_sizes_.size(); ++i) {
    // A step measured in seconds may exceed its duration by less than one utterance.
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
  // An item that alone exceeds the limit is refused when the step is split.
  const int64_t longest = frames_of(dry_.model(), {&step.front(), 1});
  return fill(dry_.model(), source_, step, std::max(limits.max_frames, longest));
}

std::string BudgetFit::hint_for(const std::vector<Example>& least, int64_t needed_bytes,
                                const StepSettings& settings) {
  std::string hint =
      fmt::format("--memory {} would do.", format_mebibytes(budget_.named_for(needed_bytes)));
  if (settings.tier != nn::Tier::kBlock && !settings.tier.has(nn::Tier::kHost)) {
    const int64_t with_block = dry_.run_micro_batch(least, nn::Tier::kBlock).high_water;
    if (with_block < needed_bytes)
      hint += fmt::format(" With --set tier=block it would be {}.",
                          format_mebibytes(budget_.named_for(with_block)));
  }
  if (!settings.limits.is_adaptive) {
    hint += " Or lower micro_batch, or batch by length: --set adaptive_batching=true.";
  } else if (dry_.task().is_speech()) {
    hint += " Or skip long utterances: --set data.too_large=skip.";
  } else {
    hint += " Or shorten the rows: --set data.row_tokens=128.";
  }
  return hint;
}

void BudgetFit::refuse(const std::vector<Example>& least, const device::MemoryReport& needed,
                       const StepSettings& settings) {
  const Task& task = dry_.task();
  const std::string who = least.size() == 1
                              ? fmt::format("the longest {} alone needs", task.item)
                              : fmt::format("the {} longest {} need", least.size(), task.items);
  if (needed.high_water <= budget_.bytes) {
    throw Infeasible(
        {.attempted = "fitting the run into the host's memory",
         .found = fmt::format("{} {} there", who, format_bytes(needed.host_peak)),
         .expected = fmt::format("at most {}", format_bytes(budget_.host_bytes)),
         .hint = fmt::format("--host-memory {} would do, if the machine has that much; or keep "
                             "more on the device: --set tier=block --set optimizer.state=device.",
                             format_mebibytes(needed.host_peak))});
  }
  throw Infeasible(
      {.attempted = "fitting the run into its budget",
       .found = fmt::format("{} {}", who, format_bytes(budget_.named_for(needed.high_water))),
       .expected = budget_.expected_text(),
       .hint = hint_for(least, needed.high_water, settings)});
}

LargestItem find_largest_item(const models::Model& model, const data::Source& source) {
  data::ExampleSize largest;
  for (int64_t index = 0; index < source.num_items(); ++index) {
    const data::ExampleSize size = source.size_of(index);
    largest.rows = std::max(largest.rows, size.rows);
    largest.labels = std::max(largest.labels, size.labels);
  }
  const data::ItemSize size = model.size_of(largest);
  return {.frames = size.frames, .labels = size.labels, .nodes = size.nodes};
}

Fit fit_recognition(DryRun& dry, const data::Source& source, const StepBudget& budget,
                    const MicroBatchLimits& most) {
  std::vector<int64_t> order(static_cast<size_t>(source.num_items()));
  std::iota(order.begin(), order.end(), int64_t{0});
  const size_t count = std::min(order.size(), static_cast<size_t>(kLoadedAtOnce));
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count),
                            std::greater<>(),
                            [&](int64_t index) { return source.size_of(index).rows; });
  const bool has_decoder = dry.model().outline().decoder.has_value();
  std::vector<Example> examples;
  for (size_t i = 0; i < count; ++i) examples.push_back(source.dry_at(order[i]));
  give_targets(examples);
  if (has_decoder) give_most_labels(examples, source);
  const int64_t longest = frames_of(dry.model(), {examples.data(), 1});
  int64_t frames = std::max(longest, std::min(most.max_frames, frames_of(dry.model(), examples)));
  while (true) {
    const std::vector<Example> largest = fill(dry.model(), source, examples, frames);
    const device::MemoryReport report = dry.recognise(largest);
    const int64_t needed = report.high_water;
    if (needed <= budget.bytes) {
      MicroBatchLimits limits{.max_frames = frames};
      // A search takes memory for each utterance by the longest of them: no more utterances than
      // the longest ones that fill the frames.
      if (has_decoder) {
        limits.max_utterances = std::ssize(largest);
        limits = with_labels_of(dry.model(), largest, limits);
      }
      return {.limits = limits, .worst = report};
    }
    if (frames == longest) {
      const int64_t bytes = budget.named_for(needed);
      throw Infeasible(
          {.attempted = "fitting the recognition into the budget",
           .found = fmt::format("the longest item alone needs {}", format_bytes(bytes)),
           .expected = budget.expected_text(),
           .hint = fmt::format("--memory {} would do.{}", format_mebibytes(bytes),
                               has_decoder ? " Or take shorter audio, a smaller decode.beam or a "
                                             "smaller decode.max_tokens_per_frame."
                                           : "")});
    }
    frames = std::max(longest, frames / 2);
  }
}

}  // namespace sotto::train
