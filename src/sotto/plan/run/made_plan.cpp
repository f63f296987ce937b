#include "sotto/plan/run/made_plan.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "sotto/plan/run/decided_run.h"
#include "sotto/plan/run/planned_device.h"
#include "sotto/plan/usual_data.h"

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

}  // namespace

MadePlan make_plan(const RunDescription& run, const train::Note& noted) {
  const ReadConfig read = read_config(run, name_config(run, noted));
  const train::RunConfig& config = read.config;
  const PlannedDevice device = planned_device(config);
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
  const RunLength length_of_all = length_of_run(
      config, length,
      std::llround(static_cast<double>(made.planner->steps_per_epoch()) * length / planned_length));
  made.facts = {.device_name = device.budget.device_name,
                .is_elsewhere = device.is_elsewhere,
                .budget_bytes = device.budget.bytes,
                .constant_bytes = device.constant_bytes,
                .data_name = std::move(name),
                .run_length = length_of_all.length,
                .run_name = length_of_all.name,
                .task = &task};
  made.plan = made.planner->plan();
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
