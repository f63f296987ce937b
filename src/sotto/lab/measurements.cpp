#include "sotto/lab/measurements.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>

#include "sotto/kernels/loss/cross_entropy.h"
#include "sotto/lab/run_items.h"
#include "sotto/plan/search.h"
#include "sotto/train/run/rehearsal.h"

namespace sotto::lab {

namespace {

// What decides the memory of an item: its rows, its labels, and how many of these are targets.
using ItemSize = std::array<int64_t, 3>;

ItemSize item_size(const data::Example& example) {
  return {example.rows, std::ssize(example.labels),
          std::ranges::count(example.labels, kernels::CrossEntropy::kNoTarget)};
}

}  // namespace

StepMemory memory_of(const device::MemoryReport& report) {
  return {.after_forward = report.after_forward,
          .after_backward = report.after_backward,
          .peak = report.peak};
}

// Steps of the same sizes are run once.
StepMemory predict_whole(const train::RunConfig& config, const device::OpenedDevice& opened) {
  const std::unique_ptr<train::RunData> data = train::open_run_data(config, std::nullopt, {});
  train::DryRun dry(config, data->shape(), train::DryRun::Purpose::kTraining, opened.device.target);
  const std::shared_ptr<data::Source> source = all_items(*data);
  const plan::PlannedEpoch epoch(config, *source);
  const int64_t num_steps = config.max_steps > 0
                                ? std::min(config.max_steps, epoch.order.num_steps())
                                : epoch.order.num_steps();
  std::vector<StepMemory> steps;
  std::set<std::vector<ItemSize>> known;
  for (int64_t step = 0; step < num_steps; ++step) {
    std::vector<data::Example> examples;
    std::vector<ItemSize> sizes;
    for (const uint32_t item : epoch.order.utterances(step)) {
      examples.push_back(source->dry_at(item));
      sizes.push_back(item_size(examples.back()));
    }
    if (!known.insert(std::move(sizes)).second) continue;
    steps.push_back(
        memory_of(dry.run_step(examples, {.reduction = config.reduction, .tier = config.tier})));
  }
  return largest_of(steps);
}

LargestBatch find_largest(train::RunConfig config, const device::OpenedDevice& opened,
                          const LabEvents& events) {
  // The trials themselves ignore this limit; setting up needs room for one item only.
  config.micro_batch = 1;
  train::Rehearsal rehearsal(std::move(config), opened.device, opened.budget_bytes);
  const train::Rehearsal::LargestBatch found =
      rehearsal.find_largest([&](const train::Rehearsal::Trial&) { check_stop(events); });
  LargestBatch largest{.tried = found.tried, .predicted = found.predicted};
  for (const train::Rehearsal::Trial& trial : found.trials)
    if (trial.fits && trial.count == found.tried) largest.peak_bytes = trial.peak;
  if (found.tried > 0) largest.seconds = rehearsal.time_copies(found.tried);
  return largest;
}

}  // namespace sotto::lab
