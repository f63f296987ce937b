// `sotto average`: averages the weights of checkpoints into a new checkpoint.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/commands/number_checks.h"
#include "sotto/core/error.h"
#include "sotto/train/checkpoint/average.h"
#include "sotto/train/checkpoint/checkpoint.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;

struct AverageOptions {
  std::vector<std::string> folders;
  int64_t last = 0;
  int64_t best = 0;
  std::string out;
};

std::vector<fs::path> chosen_checkpoints(const AverageOptions& options) {
  std::vector<fs::path> folders(options.folders.begin(), options.folders.end());
  const bool is_by_number = options.last > 0 || options.best > 0;
  if (is_by_number && folders.size() == 1) {
    return options.best > 0 ? train::best_checkpoints(folders.front(), options.best)
                            : train::newest_checkpoints(folders.front(), options.last);
  }
  if (!is_by_number && folders.size() > 1) return folders;
  std::string number = ", without --last or --best";
  if (is_by_number)
    number = options.best > 0 ? fmt::format(" and --best {}", options.best)
                              : fmt::format(" and --last {}", options.last);
  throw ConfigError({.attempted = "choosing checkpoints",
                     .found = fmt::format("{} folder{}{}", folders.size(),
                                          folders.size() == 1 ? "" : "s", number),
                     .expected = "a run with --last N or --best N, or at least two checkpoints",
                     .hint = "Type: sotto average runs/NAME --last 5 --out FOLDER"});
}

void run_average(const AverageOptions& options) {
  const std::vector<fs::path> checkpoints = chosen_checkpoints(options);
  train::average_checkpoints(checkpoints, options.out);
  for (const fs::path& path : checkpoints) std::cout << path.string() << '\n';
  std::cout << fmt::format("wrote {}, the average of {} checkpoints\n", options.out,
                           checkpoints.size());
}

}  // namespace

void add_average(CLI::App& app, const GlobalOptions&) {
  CLI::App* command = app.add_subcommand("average", "Average the weights of checkpoints");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<AverageOptions>();
  command->add_option("folders", options->folders, "A run, or several checkpoints")->required();
  CLI::Option* last = command->add_option("--last", options->last,
                                          "Number of latest checkpoints of the run to average");
  last->check(positive());
  command
      ->add_option("--best", options->best,
                   "Number of checkpoints of the run with the best evaluations to average")
      ->check(positive())
      ->excludes(last);
  command->add_option("--out", options->out, "Folder to write")->required();
  command->footer(example("  sotto average runs/tiny-1 --last 2 --out runs/tiny-1-mean",
                          "a run with checkpoints in runs/tiny-1"));
  command->callback([options] { run_average(*options); });
}

}  // namespace sotto::cli
