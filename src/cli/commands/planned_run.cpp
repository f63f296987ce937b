#include "cli/commands/planned_run.h"

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <numeric>
#include <optional>

#include "cli/commands/planned_device.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/units.h"
#include "sotto/device/host_info.h"
#include "sotto/plan/evaluation_limits.h"
#include "sotto/plan/explanation.h"
#include "sotto/plan/outlook.h"
#include "sotto/train/step/library_constant.h"

namespace sotto::cli {

std::shared_ptr<data::Source> source_to_plan(const plan::PlanRequest& request,
                                             train::RunData& data) {
  return data.make_train(
      [&](const data::Source& all) { return plan::longest_fitting_s(request, all); });
}

plan::HostChoices choose_besides(plan::Way& way, const plan::PlanRequest& request,
                                 const data::Source& source, double length,
                                 const train::RunData* data) {
  plan::HostChoices choices =
      plan::choose_on_host(way, request, source, length, device::read_host());
  const std::unique_ptr<data::Source> dev = data != nullptr ? data->make_dev() : nullptr;
  if (dev) choices.reasons.push_back(plan::tell_evaluation(way, request, *dev));
  return choices;
}

DecidedRun decide_open(const train::RunConfig& config, const plan::OpenChoices& open,
                       const OpenedDevice& opened, train::RunData& data) {
  if (!open.any()) return {.config = config, .plan_yaml = ""};
  plan::PlanRequest request = planned_device(config, opened.device, opened.budget_bytes)
                                  .request(config, open, data.shape());
  const std::shared_ptr<data::Source> source = source_to_plan(request, data);
  plan::Plan plan = plan::Planner(request, *source).plan();
  // What libraries take was allowed for, where it was never measured: where that was too little,
  // there is less room.
  const train::StepBudget divided =
      train::divide_budget(plan.best.config, data.shape(), opened.device, opened.budget_bytes);
  if (divided.bytes < request.budget.bytes) {
    request.budget.bytes = divided.bytes;
    request.budget.constant_bytes = divided.constant_bytes;
    plan = plan::Planner(request, *source).plan();
  }
  const std::vector<float> lengths = source->lengths();
  const plan::HostChoices host = choose_besides(
      plan.best, request, *source, std::accumulate(lengths.begin(), lengths.end(), 0.0), &data);
  for (const plan::Reason& reason : plan::reasons_of(plan, request, host))
    spdlog::info("{}: {}: {}", reason.key, reason.value, reason.why);
  return {.config = plan.best.config,
          .plan_yaml = format_yaml(plan::write_plan(plan, request, host))};
}

std::string ladder_text(const train::RunConfig& config, const OpenedDevice& opened,
                        bool is_resumed) {
  const std::unique_ptr<train::RunData> data = train::open_run_data(config, std::nullopt, {});
  const plan::PlanRequest request =
      planned_device(config, opened.device, opened.budget_bytes).request(config, {}, data->shape());
  std::string text = "What to try, from what costs least; each with all before it:\n";
  for (const plan::Rung& rung : plan::ladder(request, *source_to_plan(request, *data))) {
    const bool is_kept = rung.change.starts_with("--set numerics") ||
                         rung.change.starts_with("--set data.") ||
                         rung.change.starts_with("--set precision.");
    if (is_resumed && is_kept) continue;
    text += fmt::format("  {}: needs {}\n", rung.change,
                        format_bytes(request.budget.named_for(rung.least_bytes)));
  }
  return text;
}

void add_trial_options(CLI::App& command, TrialOptions& options) {
  add_run_options(command, options.run);
  command.add_option("--pretend-device", options.pretended,
                     "Give the GPU the memory and abilities of another: t4, l4, rtx4090 ...");
  command.add_flag("--json", options.json, "Print the result as JSON");
}

std::unique_ptr<train::Rehearsal> make_rehearsal(const TrialOptions& options) {
  const ReadConfig read = read_run_config(options.run);
  train::RunConfig config = read.config;
  check_has_data(config);
  const OpenedDevice opened(config.memory, config.device, options.pretended, config.deterministic);
  if (read.open.any()) {
    const std::unique_ptr<train::RunData> data = train::open_run_data(config, std::nullopt, {});
    config = decide_open(config, read.open, opened, *data).config;
  }
  return std::make_unique<train::Rehearsal>(config, opened.device, opened.budget_bytes);
}

}  // namespace sotto::cli
