// `sotto plan`: from a budget to a run, without running it and without needing its device.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

#include "command_line.h"
#include "commands.h"
#include "plan_view.h"
#include "planned_device.h"
#include "run_options.h"
#include "sotto/plan/usual_data.h"
#include "sotto/train/run_data.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;

struct PlanOptions {
  RunOptions run;
  std::string out;
  bool json = false;
};

void run_plan(const PlanOptions& options) {
  const ReadConfig read = read_run_config(options.run);
  const train::RunConfig& config = read.config;
  const PlannedDevice device = planned_device(config);
  const bool has_data = !config.data.train.empty();
  std::unique_ptr<train::RunData> data;
  std::shared_ptr<data::Source> source;
  models::DataShape shape = plan::usual_shape(config);
  if (has_data) {
    data = train::open_run_data(config, std::nullopt, {});
    shape = data->shape();
    source = data->make_whole();
  } else {
    source = std::make_shared<data::ExampleList>(plan::usual_data(config));
  }
  const plan::PlanRequest request = device.request(config, read.open, shape);
  const plan::Plan plan = plan::Planner(request, *source).plan();

  const std::vector<float> lengths = source->lengths();
  const PlanFacts facts{.device_name = device.name,
                        .is_elsewhere = device.is_elsewhere,
                        .budget_bytes = device.budget_bytes,
                        .constant_bytes = device.constant_bytes,
                        .data_name = has_data ? source->name()
                                              : "LibriSpeech's lengths, 1,000 of "
                                                "them: no --train was named",
                        .length = std::accumulate(lengths.begin(), lengths.end(), 0.0),
                        .is_text = config.model.is_language_model(),
                        .epochs = config.epochs};
  const fs::path folder =
      options.out.empty() ? fs::path("runs") / config.name : fs::path(options.out);
  write_plan_file(folder, plan, request);
  std::cout << (options.json ? plan_json(plan, request, facts).dump(2) + "\n"
                             : plan_text(plan, request, facts) +
                                   fmt::format("\n{} is the run's configuration\n",
                                               (folder / "plan.yaml").string()));
}

}  // namespace

void add_plan(CLI::App& app, const GlobalOptions&) {
  CLI::App* command =
      app.add_subcommand("plan", "From a memory budget to a run's settings, with reasons");
  auto options = std::make_shared<PlanOptions>();
  add_run_options(*command, options->run);
  command->get_option("--device")
      ->description("What to plan for: cpu, cuda, cuda:N, or a card by name: t4, l4, rtx4070 ...");
  command->add_option("--out", options->out, "Folder for plan.yaml (runs/NAME)");
  command->add_flag("--json", options->json, "Print the plan as JSON");
  command->footer(example("  sotto plan --model xls-r-1b --device rtx4070 --memory 8GiB"));
  command->callback([options] { run_plan(*options); });
}

}  // namespace sotto::cli
