// `sotto export`: a model as a folder that transformers loads.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "command_line.h"
#include "commands.h"
#include "model_choice.h"
#include "sotto/core/atomic_folder.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/data/tokenizer.h"
#include "sotto/models/hugging_face.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::string model;
  std::string out;
  std::string max_shard = "5GB";
};

void run_export(const ExportOptions& options) {
  const ModelChoice choice = choose_model(options.model);
  if (!choice.folder) {
    throw ConfigError({.attempted = "exporting a model",
                       .found = fmt::format("the preset '{}', which has no weights", options.model),
                       .expected = "a folder with weights: a checkpoint, or one of Hugging Face"});
  }
  const models::DataShape shape = models::shape_of_hugging_face(*choice.folder);
  const auto model = models::make_model(choice.options, shape, {.trains = false});
  for (const std::string& note : models::load_hugging_face(*choice.folder, *model))
    std::cout << fmt::format("{}: {}\n", options.model, note);
  AtomicFolder aside(options.out);
  models::write_tensor_folder(aside.path(), model->named_weights(), parse_bytes(options.max_shard));
  models::write_hugging_face_config(aside.path(), choice.options, shape);
  if (const std::optional<fs::path> tokenizer = data::Tokenizer::find(*choice.folder))
    fs::copy_file(*tokenizer, aside.path() / tokenizer->filename());
  aside.commit();
  std::cout << fmt::format("wrote {}\n", options.out);
}

}  // namespace

void add_export(CLI::App& app, const GlobalOptions&) {
  CLI::App* command = app.add_subcommand("export", "A model as a folder that transformers loads");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<ExportOptions>();
  command
      ->add_option("--model", options->model,
                   "A checkpoint of wav2vec2, a folder of Hugging Face, or an id in its cache")
      ->required();
  command->add_option("--out", options->out, "Folder to write")->required();
  command->add_option("--max-shard", options->max_shard, "Bytes of a file of weights (5GB)");
  command->footer(example("  sotto export --model runs/xls-r/best --out xls-r-iban"));
  command->callback([options] { run_export(*options); });
}

}  // namespace sotto::cli
