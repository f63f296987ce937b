#include "sotto/lab/measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>

#include "sotto/core/units.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "sotto/lab/run_items.h"
#include "sotto/models/model_profile.h"
#include "sotto/plan/explanation.h"
#include "sotto/plan/run/made_plan.h"
#include "sotto/plan/run/planned_rehearsal.h"
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

void measure_size(const ExperimentRequest& request, const LabEvents& events, Result& result) {
  // Steps that would take longer than this are not worth the wait: their memory is known.
  constexpr double kMaxStepS = 60.0;
  // The first is not timed: libraries choose and load kernels.
  constexpr int64_t kSteps = 4;
  const plan::RunDescription run = describe_run(request);
  begin_phase(events, "planning");
  const plan::MadePlan made = plan::make_plan(run);
  const plan::Candidate& best = made.plan.best;
  result.device = made.facts.device_name;
  result.budget_bytes = made.facts.budget_bytes;
  result.num_parameters = models::profile_model(best.config.model, made.request.shape).parameters;
  result.predicted = memory_of(best.fit.worst);
  result.predicted_speed = best.speed();
  for (const plan::Reason& reason : plan::reasons_of(made.plan, made.request))
    if (reason.is_setting) result.decided.push_back(fmt::format("{}={}", reason.key, reason.value));
  if (made.facts.is_elsewhere) {
    result.note = "not measured: the device is not in this machine";
  } else if (!made.data) {
    result.note = "not measured: no data was given; name a manifest with --train";
  } else if (best.time.total_s() > kMaxStepS) {
    result.note =
        fmt::format("not measured: a step takes {}", format_duration(best.time.total_s()));
  }
  if (!result.note.empty()) return;
  begin_phase(events, "running the largest steps");
  const auto rehearsal = plan::make_rehearsal(run, {}, {}, [](const auto&) {});
  result.predicted = {};
  double length = 0.0;
  int64_t num_timed = 0;
  const auto add = [&](const train::Rehearsal::Step& step) {
    result.memory.push_back(memory_of(step.measured));
    if (step.planned.peak > result.predicted.peak) result.predicted = memory_of(step.planned);
    check_stop(events);
    if (result.memory.size() == 1) return;
    ++num_timed;
    result.total_seconds += step.seconds;
    length += result.is_text() ? static_cast<double>(step.num_utterances * result.row_tokens)
                               : step.audio_seconds;
  };
  rehearsal->run_worst(kSteps, add);
  result.num_steps = std::ssize(result.memory);
  if (num_timed == 0 || result.total_seconds <= 0.0) return;
  result.seconds_per_step = result.total_seconds / static_cast<double>(num_timed);
  result.speed = length / result.total_seconds;
}

}  // namespace sotto::lab
