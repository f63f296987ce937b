// `sotto lab`: runs suites of experiments, single experiments, and compares results.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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
#include "cli/commands/stop_signal.h"
#include "cli/views/console.h"
#include "cli/views/json_text.h"
#include "cli/views/lab_view.h"
#include "sotto/core/error.h"
#include "sotto/lab/comparison_files.h"
#include "sotto/lab/lab_run.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;

// Options of every command that trains.
struct LabOptions {
  std::string suite = "techniques";
  plan::RunDescription run;
  std::string tokenizer;
  int64_t vocabulary = 0;
  int64_t batch_size = 0;
  std::string out;
  std::string dataset;
  bool no_find_batch = false;
  bool no_memory_profiling = false;
  bool keep_checkpoints = false;
  std::string pretended;
  bool json = false;
};

struct LabRunOptions {
  LabOptions lab;
  std::vector<std::string> only;
  std::vector<std::string> skip;
  std::vector<std::string> models;
  std::vector<std::string> budgets;
  std::vector<int64_t> micro_batches;
  std::string standard;
  int64_t seeds = 0;
};

struct LabTrainOptions {
  LabOptions lab;
  bool bf16 = false;
  bool flash_attn = false;
  bool gradient_checkpointing = false;
  int64_t window_size = 0;
  std::string technique;
};

struct LabCompareOptions {
  fs::path folder;
  std::string dataset;
  std::vector<std::string> experiments;
  bool json = false;
};

// The results' folder: results/SUITE unless it is named.
lab::LabRequest request_of(const LabOptions& options, lab::Suite suite) {
  lab::LabRequest request{.suite = std::move(suite),
                          .run = options.run,
                          .folder = options.out,
                          .dataset = options.dataset,
                          .finds_batch = !options.no_find_batch,
                          .profiles_memory = !options.no_memory_profiling,
                          .keeps_checkpoints = options.keep_checkpoints,
                          .pretended_device = options.pretended};
  if (options.vocabulary > 0) {
    if (request.suite.vocabulary == 0 || !options.tokenizer.empty())
      throw ConfigError({.attempted = fmt::format("running the suite {}", request.suite.name),
                         .found = fmt::format("--vocabulary {}", options.vocabulary),
                         .expected = "a suite that trains a vocabulary, and no --tokenizer"});
    request.suite.vocabulary = options.vocabulary;
  }
  if (request.folder.empty()) request.folder = fs::path("results") / request.suite.name;
  std::vector<std::string>& settings = request.run.settings;
  if (!options.tokenizer.empty()) settings.push_back("data.tokenizer=" + options.tokenizer);
  if (options.batch_size > 0)
    settings.push_back(fmt::format("effective_batch={}", options.batch_size));
  return request;
}

void run_and_show(const lab::LabRequest& request, bool as_json) {
  survive_broken_pipes();
  LabView view;
  lab::SuiteEvents events = view.events();
  events.experiment.should_stop = is_asked_to_end;
  listen_to_signals();
  const std::optional<lab::Comparison> comparison = lab::run_suite(request, events);
  if (!comparison) {
    print_error(fmt::format("Stopped and saved; the same command continues in {}\n",
                            request.folder.string()));
    return;
  }
  std::cout << (as_json ? json_text(lab::comparison_json(*comparison))
                        : comparison_text(*comparison) +
                              fmt::format("\nFiles: {}\n", request.folder.string()));
  const auto is_ours = [](const lab::Result& row) {
    return row.is_done() && !row.settings.empty();
  };
  if (std::ranges::none_of(comparison->rows, is_ours))
    throw DataError({.attempted = fmt::format("running the suite {}", request.suite.name),
                     .found = "no experiment was completed",
                     .hint = "The notes above say why."});
}

// Budgets and micro-batches of the command line replace both lists of the suite. Throws ConfigError
// for a suite that has none.
void set_sizes(const LabRunOptions& options, lab::Suite& suite) {
  const bool has_models = !options.models.empty(), has_budgets = !options.budgets.empty();
  const bool has_micro_batches = !options.micro_batches.empty();
  if (suite.kind == lab::Suite::Kind::kSizes) {
    if (has_models) suite.models = options.models;
    if (has_budgets || has_micro_batches) {
      suite.budgets = options.budgets;
      suite.micro_batches = options.micro_batches;
    }
    lab::expand_sizes(suite);
  } else if (has_models || has_budgets || has_micro_batches) {
    throw ConfigError(
        {.attempted = fmt::format("running the suite {}", suite.name),
         .found = has_models    ? "--models"
                  : has_budgets ? "--budgets"
                                : "--micro-batches",
         .expected = fmt::format("options of a suite of kind {}", lab::name_of_kind(suite.kind)),
         .hint = "They belong to sotto lab run sizes."});
  }
}

void run_lab(const LabRunOptions& options) {
  lab::Suite suite = lab::find_suite(options.lab.suite);
  set_sizes(options, suite);
  lab::select_experiments(suite, options.only, options.skip);
  lab::LabRequest request = request_of(options.lab, std::move(suite));
  request.num_seeds = options.seeds;
  request.standard = options.standard;
  run_and_show(request, options.lab.json);
}

// Returns the experiment of these flags; its name lists them unless it is given.
lab::Experiment experiment_of(const LabTrainOptions& options) {
  lab::Experiment experiment;
  std::vector<std::string> parts;
  const auto add = [&](bool is_on, const std::string& part, const std::string& setting) {
    if (!is_on) return;
    parts.push_back(part);
    experiment.settings.push_back(setting);
  };
  add(options.bf16, "bf16", "numerics=bf16-exact");
  add(options.flash_attn, "flash", "model.attention=tiled");
  add(options.window_size > 0, fmt::format("window{}", options.window_size),
      fmt::format("model.attention_left={}", options.window_size - 1));
  add(options.gradient_checkpointing, "gradcp", "tier=block");
  const std::string flags = fmt::format("{}", fmt::join(parts, "_"));
  experiment.name = !options.technique.empty() ? options.technique
                    : flags.empty()            ? "baseline"
                                               : flags;
  experiment.title = flags.empty() ? "no technique" : fmt::format("{}", fmt::join(parts, ", "));
  return experiment;
}

void run_lab_train(const LabTrainOptions& options) {
  lab::Suite suite = lab::find_suite("techniques");
  suite.experiments = {experiment_of(options)};
  lab::LabRequest request = request_of(options.lab, std::move(suite));
  request.num_seeds = 1;
  run_and_show(request, options.lab.json);
}

void run_lab_compare(const LabCompareOptions& options) {
  std::vector<std::string> problems;
  std::vector<lab::Result> results = lab::read_results(options.folder, problems);
  for (const std::string& problem : problems) print_error(fmt::format("left out: {}\n", problem));
  if (!options.dataset.empty())
    std::erase_if(results, [&](const lab::Result& r) { return r.dataset != options.dataset; });
  if (results.empty())
    throw DataError({.attempted = fmt::format("comparing results in {}", options.folder.string()),
                     .found = "no files named DATASET_EXPERIMENT_metrics.json",
                     .hint = "sotto lab run or sotto lab train writes them."});
  for (const lab::Result& result : results) {
    if (result.dataset == results.front().dataset) continue;
    throw ConfigError(
        {.attempted = fmt::format("comparing results in {}", options.folder.string()),
         .found = fmt::format("results on {} and on {}", results.front().dataset, result.dataset),
         .expected = "results on the same data",
         .hint = "Choose with --dataset."});
  }
  const lab::Comparison comparison = lab::compare_results(std::move(results), options.experiments);
  // A part of the results does not replace the files of all.
  const bool is_whole = options.experiments.empty();
  if (is_whole) lab::write_comparison(options.folder, comparison);
  std::cout << (options.json ? json_text(lab::comparison_json(comparison))
                             : comparison_text(comparison) +
                                   (is_whole ? fmt::format("\nFiles: {}\n", options.folder.string())
                                             : std::string()));
}

void list_suites(bool as_json) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  report::Table table({{"suite"}, {"experiments"}, {"summary"}});
  for (const lab::Suite& suite : lab::built_in_suites()) {
    std::vector<std::string> names;
    for (const lab::Experiment& experiment : suite.experiments) names.push_back(experiment.name);
    json.push_back({{"suite", suite.name}, {"summary", suite.summary}, {"experiments", names}});
    table.add_row({suite.name, names.empty() ? "-" : std::to_string(names.size()), suite.summary});
  }
  if (as_json) {
    std::cout << json_text({{"format_version", 1}, {"suites", json}});
    return;
  }
  std::cout << table.to_string()
            << "A suite of your own is a YAML file: sotto lab run my_suite.yaml\n";
}

void add_lab_options(CLI::App& command, LabOptions& options) {
  command.add_option("--train", options.run.train, "Text or manifest to train on");
  command.add_option("--dev", options.run.dev, "Text or manifest to evaluate on");
  command.add_option("--tokenizer", options.tokenizer,
                     "vocab.json or SentencePiece .model (default: trained on the text)");
  command
      .add_option("--vocabulary", options.vocabulary,
                  "Entries of the vocabulary that is trained without --tokenizer (the suite's)")
      ->check(positive());
  command.add_option("--model", options.run.model,
                     "Preset, folder or Hugging Face id of the network (default: the suite's)");
  command.add_option("--set", options.run.settings, "Setting of every run: key.sub=value")
      ->allow_extra_args(false);
  command.add_option("--batch-size", options.batch_size, "Items per update")->check(positive());
  command.add_option("--max-steps", options.run.max_steps, "Updates per run")->check(positive());
  add_memory_option(command, options.run.memory);
  command.add_option("--device", options.run.device, "Device: cpu, cuda or cuda:N");
  add_pretend_option(command, options.pretended);
  command.add_option("--out", options.out, "Folder of the results (results/SUITE)");
  command.add_option("--dataset", options.dataset,
                     "Name of the data in file names (default: the name of its folder)");
  command.add_flag("--no-find-batch", options.no_find_batch, "Do not search the largest batch");
  command.add_flag("--no-memory-profiling", options.no_memory_profiling,
                   "Do not record the memory of steps");
  command.add_flag("--keep-checkpoints", options.keep_checkpoints,
                   "Keep the weights of completed experiments");
  command.add_flag("--json", options.json, "Print the comparison as JSON");
}

void add_lab_run(CLI::App& lab) {
  CLI::App* command = lab.add_subcommand("run", "Run the experiments of a suite and compare them");
  auto options = std::make_shared<LabRunOptions>();
  command->add_option("suite", options->lab.suite, "Name of a suite, or a YAML file")->required();
  add_lab_options(*command, options->lab);
  command->add_option("--only", options->only, "Experiments to run")->delimiter(',');
  command->add_option("--skip", options->skip, "Experiments to leave out")->delimiter(',');
  command
      ->add_option("--seeds", options->seeds,
                   "Seeds of the first experiment; from two on, noise is known (the suite's)")
      ->check(positive());
  command->add_option("--standard", options->standard,
                      "limits: figures of a padded run, written by bench/standard_peer.py");
  command->add_option("--models", options->models, "sizes: networks to compare")->delimiter(',');
  command->add_option("--budgets", options->budgets, "sizes: memory budgets: 4GiB 8GiB")
      ->delimiter(',');
  command
      ->add_option("--micro-batches", options->micro_batches,
                   "sizes: utterances per micro-batch: 8 2 1; also finds the smallest budget")
      ->delimiter(',')
      ->check(positive());
  command->footer(
      example("  sotto lab run techniques --train corpus/train.txt --dev corpus/dev.txt",
              "corpus: a text of your own, divided by sotto data text"));
  command->callback([options] { run_lab(*options); });
}

void add_lab_train(CLI::App& lab) {
  CLI::App* command = lab.add_subcommand("train", "Run one experiment by its techniques");
  auto options = std::make_shared<LabTrainOptions>();
  add_lab_options(*command, options->lab);
  command->add_flag("--bf16", options->bf16, "bf16 products and activations");
  command->add_flag("--flash-attn", options->flash_attn, "Attention in tiles");
  command->add_flag("--gradient-checkpointing", options->gradient_checkpointing,
                    "Recompute blocks in backward");
  command->add_option("--window-size", options->window_size, "Tokens that a token attends to")
      ->check(positive());
  command->add_option("--technique", options->technique, "Name of the experiment in file names");
  command->footer(example("  sotto lab train --bf16 --flash-attn --train corpus/train.txt",
                          "corpus: a text of your own"));
  command->callback([options] { run_lab_train(*options); });
}

void add_lab_compare(CLI::App& lab) {
  CLI::App* command = lab.add_subcommand("compare", "Compare results that are there");
  auto options = std::make_shared<LabCompareOptions>();
  command->add_option("--results-dir", options->folder, "Folder of the results")->required();
  command->add_option("--dataset", options->dataset, "Results on this data alone");
  command
      ->add_option("--experiments", options->experiments,
                   "Experiments to compare; the first is the baseline (default: all)")
      ->delimiter(',');
  command->add_flag("--json", options->json, "Print the comparison as JSON");
  command->footer(
      example("  sotto lab compare --results-dir results/techniques --experiments baseline bf16",
              "results of sotto lab run"));
  command->callback([options] { run_lab_compare(*options); });
}

}  // namespace

void add_lab(CLI::App& app, const GlobalOptions&) {
  CLI::App* lab = app.add_subcommand("lab", "Run and compare experiments");
  lab->require_subcommand(1);
  add_lab_run(*lab);
  add_lab_train(*lab);
  add_lab_compare(*lab);
  CLI::App* list = lab->add_subcommand("list", "List the suites of the program");
  auto as_json = std::make_shared<bool>(false);
  list->add_flag("--json", *as_json, "Print the list as JSON");
  list->footer(example("  sotto lab list"));
  list->callback([as_json] { list_suites(*as_json); });
}

}  // namespace sotto::cli
