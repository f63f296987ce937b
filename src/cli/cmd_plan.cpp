// `sotto plan`: from a budget to a run, without running it and without needing its device.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "plan_view.h"
#include "planned_device.h"
#include "run_options.h"
#include "sotto/core/error.h"
#include "sotto/plan/outlook.h"
#include "sotto/plan/usual_data.h"
#include "sotto/train/run_data.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;

struct PlanOptions {
  RunOptions run;
  std::string out;
  std::vector<std::string> models;
  std::vector<std::string> memories;
  std::vector<std::string> devices;
  bool json = false;
};

// Of the arena: what is looked at besides the budget itself.
const std::vector<double> kShares = {0.5, 0.75, 1.5, 2.0};

// A plan with all that it was made of; the source is what its request refers to.
struct MadePlan {
  PlanFacts facts;
  plan::PlanRequest request;
  std::shared_ptr<train::RunData> data;  // where some is named
  std::shared_ptr<data::Source> source;
  plan::Plan plan;
};

MadePlan make_plan(const RunOptions& options) {
  const ReadConfig read = read_run_config(options);
  const train::RunConfig& config = read.config;
  const PlannedDevice device = planned_device(config);
  const bool has_data = !config.data.train.empty();
  std::shared_ptr<train::RunData> data;
  std::shared_ptr<data::Source> source;
  models::DataShape shape = plan::usual_shape(config);
  if (has_data) {
    data = train::open_run_data(config, std::nullopt, {});
    shape = data->shape();
    source = data->make_whole();
  } else {
    source = std::make_shared<data::ExampleList>(plan::usual_data(config));
  }
  const std::vector<float> lengths = source->lengths();
  PlanFacts facts{
      .device_name = device.name,
      .is_elsewhere = device.is_elsewhere,
      .budget_bytes = device.budget_bytes,
      .constant_bytes = device.constant_bytes,
      .data_name = has_data ? source->name() : "LibriSpeech's lengths (no --train was named)",
      .length = std::accumulate(lengths.begin(), lengths.end(), 0.0),
      .is_text = config.model.is_language_model(),
      .epochs = config.epochs};
  const plan::PlanRequest request = device.request(config, read.open, shape);
  return {.facts = std::move(facts),
          .request = request,
          .data = data,
          .source = source,
          .plan = plan::Planner(request, *source).plan()};
}

// One row for each thing to compare: its plan, or why there is none.
void compare(const PlanOptions& options, std::string_view what,
             const std::vector<std::string>& names, std::string RunOptions::* option) {
  std::vector<ComparedPlan> rows;
  for (const std::string& name : names) {
    RunOptions run = options.run;
    run.*option = name;
    ComparedPlan row{.name = name, .plan = {}, .facts = {}, .refused = {}};
    try {
      MadePlan made = make_plan(run);
      row.plan = std::move(made.plan);
      row.facts = std::move(made.facts);
    } catch (const ConfigError& error) {
      row.refused = error.what();
    }
    rows.push_back(std::move(row));
  }
  std::cout << (options.json ? comparison_json(rows).dump(2) + "\n" : comparison_text(what, rows));
}

void run_plan(const PlanOptions& options) {
  if (!options.models.empty()) return compare(options, "model", options.models, &RunOptions::model);
  if (!options.memories.empty())
    return compare(options, "memory", options.memories, &RunOptions::memory);
  if (!options.devices.empty())
    return compare(options, "device", options.devices, &RunOptions::device);
  const MadePlan made = make_plan(options.run);
  const fs::path folder =
      options.out.empty() ? fs::path("runs") / made.request.config.name : fs::path(options.out);
  write_plan_file(folder, made.plan, made.request);
  if (options.json) {
    std::cout << plan_json(made.plan, made.request, made.facts).dump(2) << "\n";
    return;
  }
  std::cout << plan_text(made.plan, made.request, made.facts) << "\n"
            << outlook_text(plan::look_around(made.request, *made.source, made.plan, kShares),
                            made.plan.best, made.facts)
            << fmt::format("\n{} is the run's configuration\n", (folder / "plan.yaml").string());
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
  CLI::Option* models =
      command->add_option("--compare", options->models, "Models side by side: one table");
  CLI::Option* memories = command->add_option("--compare-memory", options->memories,
                                              "Budgets side by side: 8GiB 12GiB 24GiB");
  CLI::Option* devices = command->add_option("--compare-device", options->devices,
                                             "Devices side by side: t4 l4 rtx4090");
  models->excludes(memories)->excludes(devices);
  memories->excludes(devices);
  command->add_flag("--json", options->json, "Print the plan as JSON");
  command->footer(example("  sotto plan --model xls-r-1b --device rtx4070 --memory 8GiB"));
  command->callback([options] { run_plan(*options); });
}

}  // namespace sotto::cli
