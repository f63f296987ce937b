#include "planned_run.h"

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "plan_view.h"
#include "planned_device.h"

namespace sotto::cli {

train::RunConfig decide_open(const train::RunConfig& config, const plan::OpenChoices& open,
                             const OpenedDevice& opened, train::RunData& data,
                             const std::filesystem::path& folder) {
  if (!open.any()) return config;
  const plan::PlanRequest request = planned_device(config, opened.device, opened.budget_bytes)
                                        .request(config, open, data.shape());
  const plan::Plan plan = plan::Planner(request, *data.make_whole()).plan();
  for (const plan::Reason& reason : plan::reasons_of(plan, request))
    spdlog::info("{}: {}: {}", reason.key, reason.value, reason.why);
  if (!folder.empty()) write_plan_file(folder, plan, request);
  return plan.best.config;
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
    config = decide_open(config, read.open, opened, *data);
  }
  return std::make_unique<train::Rehearsal>(config, opened.device, opened.budget_bytes);
}

}  // namespace sotto::cli
