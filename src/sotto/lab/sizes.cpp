#include "sotto/lab/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "sotto/core/units.h"
#include "sotto/device/opened_device.h"
#include "sotto/lab/measurements.h"
#include "sotto/models/model_profile.h"
#include "sotto/plan/explanation.h"
#include "sotto/plan/run/made_plan.h"
#include "sotto/plan/run/planned_rehearsal.h"
#include "sotto/train/run/rehearsal.h"
#include "sotto/train/step/epoch_audit.h"
#include "sotto/train/step/library_constant.h"

namespace sotto::lab {

namespace {

using plan::PlanBudget;

// Steps that are run, or predicted. The first is not timed: libraries choose and load kernels.
constexpr int64_t kSteps = 4;

PlanBudget budget_of(const Experiment& experiment) {
  if (experiment.micro_batch > 0) return PlanBudget::kUnlimited;
  return experiment.has_smallest_budget ? PlanBudget::kSmallest : PlanBudget::kConfigured;
}

void describe_plan(const plan::MadePlan& made, Result& result) {
  const plan::Candidate& best = made.plan.best;
  result.device = made.facts.device_name;
  result.budget_bytes = made.facts.budget_bytes;
  result.num_parameters = models::profile_model(best.config.model, made.request.shape).parameters;
  result.predicted = memory_of(best.fit.worst);
  result.predicted_speed = best.speed();
  for (const plan::Reason& reason : plan::reasons_of(made.plan, made.request))
    if (reason.is_setting) result.decided.push_back(fmt::format("{}={}", reason.key, reason.value));
}

// Predicts the largest steps of the first epoch, as a rehearsal in unlimited memory would choose
// them. Returns the bytes of an arena that holds every step, also those of later epochs.
int64_t predict_largest(const plan::MadePlan& made, Result& result) {
  const train::RunConfig& config = made.plan.best.config;
  train::DryRun dry(config, made.request.shape, train::DryRun::Purpose::kTraining,
                    made.request.target);
  const train::StepBudget unlimited{.bytes = device::Arena::kUnlimited};
  const plan::PlannedEpoch epoch(config, *made.source);
  train::StepSettings settings{.reduction = config.reduction,
                               .tier = config.tier,
                               .seed = static_cast<uint64_t>(config.seed),
                               .total_steps = std::max<int64_t>(1, epoch.order.num_steps()),
                               .limits = train::limits_of(config)};
  settings.limits = train::BudgetFit(dry, *made.source, unlimited)
                        .find_limits(config.effective_batch, settings)
                        .limits;
  train::EpochAuditor auditor(dry, *made.source, unlimited);
  const device::MemoryReport audited = auditor.audit(epoch.order, settings).fit.worst;
  std::vector<StepMemory> steps;
  for (const int64_t number :
       auditor.worst_steps(epoch.order, settings, static_cast<size_t>(kSteps))) {
    std::vector<data::Example> examples;
    for (const uint32_t index : epoch.order.utterances(number))
      examples.push_back(made.source->dry_at(index));
    settings.step = std::ssize(steps) + 1;
    steps.push_back(memory_of(dry.run_step(examples, settings)));
  }
  result.predicted = largest_of(steps);
  return std::max(made.request.budget.bytes, audited.high_water);
}

// Returns why the steps are not run; empty where they are.
std::string why_not_run(const plan::MadePlan& made) {
  // Steps that would take longer than this are not worth the wait: their memory is known.
  constexpr double kMaxStepS = 60.0;
  const double step_s = made.plan.best.time.total_s();
  if (made.facts.is_elsewhere) return "not measured: the device is not in this machine";
  if (!made.data) return "not measured: no data was given; name a manifest with --train";
  if (step_s > kMaxStepS)
    return fmt::format("not measured: a step takes {}", format_duration(step_s));
  return {};
}

// Sets up the planned run in a budget that holds the arena and what libraries take; null, with a
// note, where the device has less.
std::unique_ptr<train::Rehearsal> rehearse_in(int64_t arena_bytes, const plan::MadePlan& made,
                                              const std::string& pretended, Result& result) {
  const train::RunConfig& config = made.plan.best.config;
  const device::OpenedDevice opened(config.memory, config.device, pretended, config.deterministic);
  const train::StepBudget taken =
      train::take_budget(config, made.request.shape, opened.device, opened.budget_bytes);
  result.budget_bytes = taken.named_for(arena_bytes);
  if (result.budget_bytes <= opened.device.memory.free_bytes)
    return std::make_unique<train::Rehearsal>(config, opened.device, result.budget_bytes);
  result.note =
      fmt::format("not measured: needs {}, and {} are free", format_bytes(result.budget_bytes),
                  format_bytes(opened.device.memory.free_bytes));
  return nullptr;
}

void run_largest(train::Rehearsal& rehearsal, const LabEvents& events, Result& result) {
  result.predicted = {};
  double length = 0.0;
  int64_t num_timed = 0;
  const auto add = [&](const train::Rehearsal::Step& step) {
    result.memory.push_back(memory_of(step.measured));
    result.predicted = largest_of({result.predicted, memory_of(step.planned)});
    check_stop(events);
    if (result.memory.size() == 1) return;
    ++num_timed;
    result.total_seconds += step.seconds;
    length += result.is_text() ? static_cast<double>(step.num_utterances * result.row_tokens)
                               : step.audio_seconds;
  };
  rehearsal.run_worst(kSteps, add);
  result.num_steps = std::ssize(result.memory);
  if (num_timed == 0 || result.total_seconds <= 0.0) return;
  result.seconds_per_step = result.total_seconds / static_cast<double>(num_timed);
  result.speed = length / result.total_seconds;
}

}  // namespace

void measure_size(const ExperimentRequest& request, const LabEvents& events, Result& result) {
  const plan::RunDescription run = describe_run(request);
  const PlanBudget budget = budget_of(request.experiment);
  begin_phase(events, "planning");
  const plan::MadePlan made =
      plan::make_plan(run, {.budget = budget, .pretended_device = request.pretended_device});
  describe_plan(made, result);
  int64_t arena_bytes = 0;
  if (budget != PlanBudget::kConfigured) {
    arena_bytes = predict_largest(made, result);
    result.budget_bytes = made.request.budget.named_for(arena_bytes);
  }
  result.note = why_not_run(made);
  if (!result.note.empty()) return;
  begin_phase(events, "running the largest steps");
  const auto rehearsal =
      budget == PlanBudget::kConfigured
          ? plan::make_rehearsal(run, request.pretended_device, {}, [](const auto&) {})
          : rehearse_in(arena_bytes, made, request.pretended_device, result);
  if (rehearsal) run_largest(*rehearsal, events, result);
}

}  // namespace sotto::lab
