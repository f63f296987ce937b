// `sotto plan`: finds the settings of a run for a budget, without running it and without needing
// its device.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/commands/number_checks.h"
#include "cli/commands/run_options.h"
#include "cli/commands/transformers_view.h"
#include "cli/views/json_text.h"
#include "cli/views/page_file.h"
#include "cli/views/plan_details.h"
#include "cli/views/plan_page.h"
#include "cli/views/train_view.h"
#include "sotto/core/error.h"
#include "sotto/train/checkpoint/run_name.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;

struct PlanOptions {
  plan::RunDescription run;
  std::string out;
  std::string format = "yaml";
  std::vector<std::string> models;
  std::vector<std::string> memories;
  std::vector<std::string> devices;
  std::string estimator;
  plan::PaperOptions paper;
  std::string stack;
  double price = 0.0;
  bool components = false;
  bool timeline = false;
  bool json = false;
};

// Other budgets that are shown, relative to the budget.
constexpr std::array kShares = {0.5, 0.75, 1.5, 2.0};

// Prints one row per compared value: its plan, or why there is none. An unknown value is an error.
void compare(const PlanOptions& options, std::string_view what,
             const std::vector<std::string>& names, std::string plan::RunDescription::* option) {
  std::vector<ComparedPlan> rows;
  for (const std::string& name : names) {
    plan::RunDescription run = options.run;
    run.*option = name;
    ComparedPlan row{.name = name, .plan = {}, .facts = {}, .refused = {}};
    try {
      plan::MadePlan made = plan::make_plan(run, {.noted = log_note});
      row.plan = std::move(made.plan);
      row.facts = std::move(made.facts);
      row.facts.price = options.price;
    } catch (const Infeasible& error) {
      row.refused = error.what();
    }
    rows.push_back(std::move(row));
  }
  std::cout << (options.json ? json_text(comparison_json(rows)) : comparison_text(what, rows));
}

PaperView paper_view(const plan::MadePlan& made, const plan::PaperOptions& options) {
  const plan::Candidate& best = made.plan.best;
  const int64_t utterances =
      std::max<int64_t>(1, best.config.effective_batch.utterances / best.micro_batches);
  return {.estimate = plan::estimate_as_papers(best.config, made.request.shape, *made.source,
                                               utterances, options),
          .options = options,
          .exact_bytes = best.fit.worst.high_water};
}

std::vector<plan::Outlook> look_around(const plan::MadePlan& made) {
  std::vector<int64_t> arenas;
  for (const double share : kShares) {
    const auto budget = static_cast<int64_t>(share * static_cast<double>(made.facts.budget_bytes));
    if (budget > made.facts.constant_bytes) arenas.push_back(budget - made.facts.constant_bytes);
  }
  return plan::look_around(*made.planner, arenas);
}

void show_plan(const PlanOptions& options, const plan::MadePlan& made,
               const std::vector<plan::Outlook>& outlooks) {
  const bool shows_paper = options.estimator == "paper";
  if (options.json) {
    nlohmann::ordered_json json = plan_json(made.plan, made.request, made.facts);
    json["outlook"] = outlook_json(outlooks, made.facts);
    if (options.components)
      json["components"] =
          components_json(plan::components_of(made.plan.best, made.request, *made.source));
    if (options.timeline)
      json["timeline"] = timeline_json(made.planner->timeline_of(made.plan.best));
    if (shows_paper) json["paper"] = paper_json(paper_view(made, options.paper));
    std::cout << json_text(json);
    return;
  }
  std::cout << plan_text(made.plan, made.request, made.facts) << "\n"
            << outlook_text(outlooks, made.plan.best, made.facts);
  if (options.components)
    std::cout << "\n"
              << components_text(plan::components_of(made.plan.best, made.request, *made.source),
                                 made.facts);
  if (options.timeline)
    std::cout << "\n" << timeline_text(made.planner->timeline_of(made.plan.best));
  if (shows_paper) std::cout << "\n" << paper_text(paper_view(made, options.paper));
}

// `outlooks`: those of the terminal; cards are added.
fs::path write_plan_page(const plan::MadePlan& made, std::vector<plan::Outlook> outlooks,
                         const fs::path& folder) {
  const fs::path path = folder / "plan.html";
  for (plan::Outlook& card : plan::look_around(*made.planner, arenas_of_cards(made)))
    outlooks.push_back(std::move(card));
  write_page(path, plan_page(made, {.outlooks = std::move(outlooks),
                                    .components = plan::components_of(made.plan.best, made.request,
                                                                      *made.source),
                                    .timeline = made.planner->timeline_of(made.plan.best)}));
  return path;
}

// Returns a folder without a run, so that no run is overwritten or mixed with the plan of another.
fs::path plan_folder_for(const PlanOptions& options, const plan::MadePlan& made) {
  const fs::path runs = train::kRunsFolder;
  const std::string& name = made.request.config.name;
  if (options.out.empty()) {
    if (!name.empty() && !train::holds_run(runs / name)) return runs / name;
    return train::next_plan_folder(runs, name.empty() ? made.model_name : name);
  }
  if (!train::holds_run(options.out)) return options.out;
  throw ConfigError({.attempted = fmt::format("writing a plan into {}", options.out),
                     .found = "the files of a run",
                     .expected = "a folder without one",
                     .hint = "Name another folder with --out."});
}

void run_plan(const PlanOptions& options) {
  if (!options.models.empty())
    return compare(options, "model", options.models, &plan::RunDescription::model);
  if (!options.memories.empty())
    return compare(options, "memory", options.memories, &plan::RunDescription::memory);
  if (!options.devices.empty())
    return compare(options, "device", options.devices, &plan::RunDescription::device);
  plan::MadePlan made = plan::make_plan(options.run, {.noted = log_note});
  made.facts.price = options.price;
  const fs::path folder = plan_folder_for(options, made);
  // A run of this plan uses the folder that the plan is in.
  for (train::RunConfig* config : {&made.request.config, &made.plan.best.config})
    if (options.out.empty() || config->name.empty()) config->name = train::run_name_from(folder);
  if (!options.stack.empty()) return plan_for_transformers(made, folder, options.json);
  const fs::path file = folder / ("plan." + options.format);
  write_plan_file(file, made.plan, made.request, made.facts.host);
  std::vector<plan::Outlook> outlooks = look_around(made);
  show_plan(options, made, outlooks);
  if (!options.json)
    std::cout << fmt::format("\nwrote the configuration of the run to {}\n", file.string());
  if (options.out.empty()) return;
  const fs::path page = write_plan_page(made, std::move(outlooks), folder);
  if (!options.json) std::cout << fmt::format("wrote the page of the plan to {}\n", page.string());
}

void add_comparisons(CLI::App& command, PlanOptions& options) {
  CLI::Option* models =
      command.add_option("--compare", options.models, "Compare models in one table");
  CLI::Option* memories =
      command.add_option("--compare-memory", options.memories, "Compare budgets: 8GiB 12GiB 24GiB");
  CLI::Option* devices =
      command.add_option("--compare-device", options.devices, "Compare devices: t4 l4 rtx4090");
  models->excludes(memories)->excludes(devices);
  memories->excludes(devices);
  // The compared option must not be given separately.
  models->excludes(command.get_option("--model"));
  memories->excludes(command.get_option("--memory"));
  devices->excludes(command.get_option("--device"));
  // A comparison has no output file and no additional estimates.
  for (CLI::Option* comparison : {models, memories, devices}) {
    for (const char* single :
         {"--out", "--format", "--estimator", "--for", "--components", "--timeline"})
      comparison->excludes(command.get_option(single));
  }
}

void add_estimates(CLI::App& command, PlanOptions& options) {
  CLI::Option* estimator =
      command.add_option("--estimator", options.estimator,
                         "paper: also show the estimate of the formula from the literature");
  estimator->check(CLI::IsMember({"paper"}));
  command.add_option("--alpha-constant", options.paper.alpha, "Constant of that formula")
      ->needs(estimator)
      ->check(positive());
  command
      .add_option("--sequence-length-percentile", options.paper.percentile,
                  "Percentile of the lengths used by that formula")
      ->needs(estimator)
      ->check(between(0.0, 100.0));
  command.add_flag("--components", options.components,
                   "Show weights, gradients, moments and activations for each arithmetic");
  command.add_flag("--timeline", options.timeline, "Draw the memory over one step");
  command
      .add_option(
          "--for", options.stack,
          "transformers: print TrainingArguments for Hugging Face and the memory they would need")
      ->check(CLI::IsMember({"transformers"}))
      ->excludes(estimator)
      ->excludes(command.get_option("--components"))
      ->excludes(command.get_option("--timeline"))
      ->excludes(command.get_option("--format"))
      ->excludes(command.get_option("--price"));
}

}  // namespace

void add_plan(CLI::App& app, const GlobalOptions&) {
  CLI::App* command =
      app.add_subcommand("plan", "Find the settings of a run for a memory budget, with reasons");
  auto options = std::make_shared<PlanOptions>();
  add_run_options(*command, options->run);
  command->get_option("--device")
      ->description(
          "Device to plan for: cpu, cuda, cuda:N, or a card by name: t4, l4, rtx4070 ...");
  command->add_option(
      "--out", options->out,
      "Folder for plan.yaml (runs/NAME, or runs/MODEL-N without a name); where it is "
      "given, also for plan.html, a page with charts");
  command->add_option("--format", options->format, "Format of the plan file: yaml or json")
      ->check(CLI::IsMember({"yaml", "json"}));
  command
      ->add_option("--price", options->price,
                   "Price of one hour on the device, to compute the cost of the run")
      ->check(positive());
  add_estimates(*command, *options);
  add_comparisons(*command, *options);
  command->add_flag("--json", options->json, "Print the plan as JSON");
  command->footer(example("  sotto plan --model xls-r-1b --device rtx4070 --memory 8GiB"));
  command->callback([options] { run_plan(*options); });
}

}  // namespace sotto::cli
