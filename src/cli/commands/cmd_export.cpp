// `sotto export`: exports a model as a folder for the Hugging Face Hub, and uploads it; or as a
// `.nemo` archive.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "sotto/core/error.h"
#include "sotto/core/files/hub_cache.h"
#include "sotto/core/units.h"
#include "sotto/models/hub/hugging_face.h"
#include "sotto/models/model_options.h"
#include "sotto/train/hub/export.h"

namespace sotto::cli {

namespace {

struct ExportOptions {
  std::string model;
  std::string out;
  std::string max_shard = "5GB";
  std::string repository;
  std::vector<std::string> languages;
  std::string license;
};

void check(const ExportOptions& options) {
  if (std::ranges::count(models::preset_names(), options.model) > 0) {
    throw ConfigError({.attempted = "exporting a model",
                       .found = fmt::format("the preset '{}', which has no weights", options.model),
                       .expected =
                           "a model with weights: a checkpoint, a Hugging Face folder or a .nemo "
                           "archive"});
  }
  const bool has_card_fields =
      !options.repository.empty() || !options.languages.empty() || !options.license.empty();
  if (train::is_nemo_export(options.out) && has_card_fields)
    throw ConfigError(
        {.attempted = "exporting a model",
         .found = fmt::format("--push, --language or --license with --out {}", options.out),
         .expected = "none of them: a .nemo archive has no model card",
         .hint = "hf upload ORG/NAME FILE.nemo uploads an archive."});
  if (!options.repository.empty() && !is_hub_repository(options.repository)) {
    throw ConfigError({.attempted = "exporting a model",
                       .found = fmt::format("--push {}", options.repository),
                       .expected = "the name of a repository on the Hub, ORG/NAME"});
  }
}

void run_export(const ExportOptions& options) {
  check(options);
  const std::vector<std::string> notes =
      train::export_model({.folder = models::find_model_folder(options.model),
                           .out = options.out,
                           .max_shard_bytes = parse_bytes(options.max_shard),
                           .repository = options.repository,
                           .languages = options.languages,
                           .license = options.license});
  for (const std::string& note : notes) std::cout << fmt::format("{}: {}\n", options.model, note);
  std::cout << fmt::format("wrote {}\n", options.out) << std::flush;
  if (options.repository.empty()) return;
  if (train::push_folder(options.out, options.repository)) {
    std::cout << fmt::format("uploaded it to {}\n", options.repository);
  } else {
    std::cout << fmt::format(
        "the hf program is not installed (pip install huggingface_hub). To upload the folder, "
        "run:\n"
        "  {}\n",
        train::push_line(options.out, options.repository));
  }
}

}  // namespace

void add_export(CLI::App& app, const GlobalOptions&) {
  CLI::App* command = app.add_subcommand(
      "export",
      "Export a model as a folder for the Hugging Face Hub, with its model card, or as a .nemo "
      "archive");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<ExportOptions>();
  command
      ->add_option("--model", options->model,
                   "A run, a checkpoint, a Hugging Face folder, an id in the local cache, or a "
                   ".nemo archive")
      ->required();
  command
      ->add_option("--out", options->out, "Folder to write, or archive if the name ends with .nemo")
      ->required();
  command->add_option("--max-shard", options->max_shard, "Maximum size of a weight file (5GB)");
  command->add_option(
      "--push", options->repository,
      "Upload the folder to ORG/NAME with the hf program, or print the command that does");
  command
      ->add_option("--language", options->languages,
                   "Language code for the model card: pl (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--license", options->license, "License for the model card: apache-2.0");
  command->footer(
      example("  sotto export --model runs/xls-r/best --out xls-r-iban --language iba --push "
              "me/xls-r-iban",
              "a run in runs/xls-r; --push also the hf program, signed in"));
  command->callback([options] { run_export(*options); });
}

}  // namespace sotto::cli
