// `sotto find-batch`: finds the largest batch by running until memory is exhausted, and compares it
// with the predicted one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/commands/run_options.h"
#include "cli/views/json_text.h"
#include "sotto/core/units.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

using report::Align;
using report::Table;
using train::Rehearsal;

std::string to_text(const Rehearsal::LargestBatch& largest, int64_t arena_bytes) {
  Table table({{"utterances", Align::kRight}, {"result"}, {"arena", Align::kRight}});
  for (const Rehearsal::Trial& trial : largest.trials) {
    table.add_row({std::to_string(trial.count), trial.fits ? "fits" : "out of memory",
                   trial.fits ? format_bytes(trial.high_water) : ""});
  }
  return table.to_string() +
         fmt::format(
             "a batch of {1} of the longest utterance ({0} frames) fits into {2}; predicted: {3}\n",
             largest.item_frames, largest.tried, format_bytes(arena_bytes), largest.predicted);
}

nlohmann::ordered_json to_json(const Rehearsal::LargestBatch& largest, int64_t arena_bytes) {
  nlohmann::ordered_json json = {{"format_version", 1},
                                 {"arena_bytes", arena_bytes},
                                 {"item_frames", largest.item_frames},
                                 {"tried", largest.tried},
                                 {"predicted", largest.predicted},
                                 {"trials", nlohmann::json::array()}};
  for (const Rehearsal::Trial& trial : largest.trials)
    json["trials"].push_back(
        {{"count", trial.count}, {"fits", trial.fits}, {"arena_bytes", trial.high_water}});
  return json;
}

}  // namespace

void add_find_batch(CLI::App& app, const GlobalOptions&) {
  CLI::App* command =
      app.add_subcommand("find-batch", "Find the largest batch that fits, by trying");
  auto options = std::make_shared<TrialOptions>();
  add_trial_options(*command, *options);
  command->footer(
      example("  sotto find-batch --model tiny --train demo_data/train.jsonl --memory 300MiB",
              "demo_data: sotto data demo makes it"));
  command->callback([options] {
    const std::unique_ptr<Rehearsal> rehearsal = make_rehearsal(*options);
    const Rehearsal::LargestBatch largest = rehearsal->find_largest({});
    const int64_t arena = rehearsal->arena_bytes();
    std::cout << (options->json ? json_text(to_json(largest, arena)) : to_text(largest, arena));
  });
}

}  // namespace sotto::cli
