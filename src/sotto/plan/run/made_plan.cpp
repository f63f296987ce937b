#include "sotto/plan/run/made_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "sotto/plan/run/decided_run.h"
#include "sotto/plan/run/planned_device.h"
#include "sotto/plan/usual_data.h"
#include "sotto/train/step/stages.h"

namespace sotto::plan {

namespace {

// Returns a text such as "3.2 h, small data".
std::string hours_text(double seconds) {
  const double hours = seconds / 3600.0;
  return fmt::format("{:.1f} h, {} data", hours,
                     hours < 10.0 ? "small" : (hours > 100.0 ? "large" : "medium"));
}

struct RunLength {
  double length = 0.0;
  std::string name;
};

// Returns all epochs, or fewer updates where max_steps is set.
RunLength length_of_run(const train::RunConfig& config, double epoch_length,
                        int64_t steps_per_epoch) {
  const int64_t steps = train::total_steps(config, steps_per_epoch);
  if (steps == config.epochs * steps_per_epoch)
    return {.length = static_cast<double>(config.epochs) * epoch_length,
            .name = fmt::format("{} epochs", config.epochs)};
  return {
      .length = epoch_length * static_cast<double>(steps) / static_cast<double>(steps_per_epoch),
      .name = fmt::format("{} updates", steps)};
}

// Returns the stages of a run on the planned data.
std::vector<PlannedStage> stages_of_data(const train::RunConfig& config,
                                         const std::vector<float>& lengths) {
  std::vector<PlannedStage> stages;
  for (const train::Stage& stage : train::stages_of(config, lengths))
    stages.push_back({.name = stage.name,
                      .num_samples = stage.num_samples,
                      .num_steps = stage.num_steps,
                      .length = stage.length});
  return stages;
}

// Returns the stages of a run on assumed data, of which `lengths` are a sample: `scale` times as
// many items, or as many as the largest stage has.
std::vector<PlannedStage> stages_of_assumed_data(const train::RunConfig& config,
                                                 const std::vector<float>& lengths, double scale) {
  const auto sampled = static_cast<double>(lengths.size());
  for (const train::StageOptions& options : config.stages)
    scale = std::max(scale, static_cast<double>(options.samples.count) / sampled);
  const double num_items = scale * sampled;
  const double epoch_length = scale * std::accumulate(lengths.begin(), lengths.end(), 0.0);
  const auto epoch_steps = static_cast<double>(
      data::Sampler(train::sampler_options(config), lengths).epoch(0).num_steps());
  std::vector<PlannedStage> stages;
  for (const train::StageOptions& options : config.stages) {
    PlannedStage& stage = stages.emplace_back(
        PlannedStage{.name = options.samples.to_string(),
                     .num_samples = options.samples.of(std::llround(num_items))});
    const double share = static_cast<double>(stage.num_samples) / num_items;
    const int64_t per_epoch = std::max<int64_t>(1, std::llround(scale * share * epoch_steps));
    stage.num_steps = options.steps > 0 ? options.steps : options.epochs * per_epoch;
    stage.length = share * epoch_length * static_cast<double>(stage.num_steps) /
                   static_cast<double>(per_epoch);
  }
  return stages;
}

RunLength length_of_stages(const std::vector<PlannedStage>& stages) {
  RunLength run{.name = stages.size() == 1 ? "1 stage" : fmt::format("{} stages", stages.size())};
  for (const PlannedStage& stage : stages) run.length += stage.length;
  return run;
}

// Plans within the configured budget, or changes the budget to what the plan needs.
Plan plan_within(PlanBudget within, Planner& planner, train::StepBudget& budget) {
  if (within == PlanBudget::kConfigured) return planner.plan();
  if (within == PlanBudget::kSmallest) budget.bytes = planner.smallest_arena();
  std::optional<Candidate> best =
      planner.best_in(within == PlanBudget::kSmallest ? budget.bytes : device::Arena::kUnlimited);
  // Says why there is none.
  if (!best) return planner.plan();
  if (within == PlanBudget::kUnlimited) budget.bytes = best->fit.worst.high_water;
  return {.best = *std::move(best), .others = {}};
}

}  // namespace

MadePlan make_plan(const RunDescription& run, const PlanTerms& terms) {
  const ReadConfig read = read_config(run, name_config(run, terms.noted));
  const train::RunConfig& config = read.config;
  const PlannedDevice device = planned_device(config, terms.pretended_device);
  const Task& task = config.model.task();
  MadePlan made;
  made.model_name = read.model_name;
  if (config.data.train.empty()) {
    made.source = std::make_shared<data::ExampleList>(usual_data(config));
    made.request = device.request(config, read.open, usual_shape(config));
  } else {
    made.data = train::open_run_data(config, std::nullopt, {});
    made.request = device.request(config, read.open, made.data->shape());
    made.source = source_to_plan(made.request, *made.data);
  }
  const std::vector<float> lengths = made.source->lengths();
  const double planned_length = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  double length = planned_length;
  std::string name = made.source->name();
  if (!made.data) {
    if (task.is_speech()) length = kUsualSeconds;
    name = fmt::format("{}, assumed, because --train was not given", task.usual_data);
  }
  if (task.is_speech()) name += " (" + hours_text(length) + ")";
  made.planner = std::make_shared<Planner>(made.request, *made.source);
  std::vector<PlannedStage> stages;
  if (!config.stages.empty())
    stages = made.data ? stages_of_data(config, lengths)
                       : stages_of_assumed_data(config, lengths, length / planned_length);
  const RunLength length_of_all =
      stages.empty()
          ? length_of_run(config, length,
                          std::llround(static_cast<double>(made.planner->steps_per_epoch()) *
                                       length / planned_length))
          : length_of_stages(stages);
  made.facts = {.device_name = device.budget.device_name,
                .is_elsewhere = device.is_elsewhere,
                .budget_bytes = device.budget.bytes,
                .constant_bytes = device.constant_bytes,
                .data_name = std::move(name),
                .run_length = length_of_all.length,
                .run_name = length_of_all.name,
                .stages = std::move(stages),
                .task = &task};
  made.plan = plan_within(terms.budget, *made.planner, made.request.budget);
  if (terms.budget != PlanBudget::kConfigured)
    made.facts.budget_bytes = made.request.budget.named_for(made.request.budget.bytes);
  made.facts.host =
      choose_host_settings(made.plan.best, made.request, *made.source, length, made.data.get());
  if (device.is_elsewhere)
    made.facts.host.reasons.push_back(
        {.key = "device",
         .value = made.request.config.device,
         .brief = "by its data sheet",
         .why = fmt::format("planned for {}, by its data sheet", device.budget.device_name)});
  return made;
}

}  // namespace sotto::plan
