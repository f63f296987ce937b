// `sotto rehearse`: runs the worst steps of a run, and compares them with their predictions.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/commands/number_checks.h"
#include "cli/commands/run_options.h"
#include "cli/views/json_text.h"
#include "cli/views/progress.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

using report::Align;
using report::Table;
using train::Rehearsal;

struct RehearseOptions {
  TrialOptions trial;
  int64_t steps = 20;
};

std::string steps_table(const std::vector<Rehearsal::Step>& steps) {
  Table table({{"step", Align::kRight},
               {"utterances", Align::kRight},
               {"micro-batches", Align::kRight},
               {"audio", Align::kRight},
               {"predicted", Align::kRight},
               {"measured", Align::kRight},
               {"time", Align::kRight}});
  for (const Rehearsal::Step& step : steps) {
    table.add_row({std::to_string(step.number), std::to_string(step.num_utterances),
                   std::to_string(step.num_micro_batches), format_duration(step.audio_seconds),
                   std::to_string(step.planned.high_water),
                   std::to_string(step.measured.high_water), format_duration(step.seconds)});
  }
  return table.to_string();
}

nlohmann::ordered_json to_json(const Rehearsal& rehearsal,
                               const std::vector<Rehearsal::Step>& steps) {
  nlohmann::ordered_json json = {{"format_version", 1},
                                 {"arena_bytes", rehearsal.arena_bytes()},
                                 {"constant_bytes", rehearsal.constant_bytes()},
                                 {"steps", nlohmann::json::array()}};
  for (const Rehearsal::Step& step : steps) {
    json["steps"].push_back({{"step", step.number},
                             {"utterances", step.num_utterances},
                             {"micro_batches", step.num_micro_batches},
                             {"audio_seconds", step.audio_seconds},
                             {"predicted_peak_bytes", step.planned.peak},
                             {"measured_peak_bytes", step.measured.peak},
                             {"predicted_arena_bytes", step.planned.high_water},
                             {"measured_arena_bytes", step.measured.high_water},
                             {"shown_bytes", step.shown_bytes},
                             {"seconds", step.seconds}});
  }
  return json;
}

// Throws InternalError where a step's peak differs from its prediction, or where it reached further
// into the arena.
void check_steps(const std::vector<Rehearsal::Step>& steps) {
  for (const Rehearsal::Step& step : steps) {
    if (step.measured.peak == step.planned.peak &&
        step.measured.high_water <= step.planned.high_water)
      continue;
    throw InternalError({.attempted = fmt::format("rehearsing step {}", step.number),
                         .found = fmt::format("{} bytes in an arena of {}", step.measured.peak,
                                              step.measured.high_water),
                         .expected = fmt::format("{} in {}, as predicted", step.planned.peak,
                                                 step.planned.high_water)});
  }
}

void run_rehearse(const RehearseOptions& options) {
  const std::unique_ptr<Rehearsal> rehearsal = make_rehearsal(options.trial);
  Progress bar("rehearsing");
  int64_t done = 0;
  const std::vector<Rehearsal::Step> steps =
      rehearsal->run_worst(options.steps, [&](const Rehearsal::Step& step) {
        bar.show(++done, options.steps, format_bytes(step.measured.high_water));
      });
  bar.clear();
  if (options.trial.json) {
    std::cout << json_text(to_json(*rehearsal, steps));
  } else {
    int64_t largest = 0;
    for (const Rehearsal::Step& step : steps) largest = std::max(largest, step.measured.high_water);
    std::cout << steps_table(steps)
              << fmt::format("the {} largest of {} steps: at most {} of {}\n", steps.size(),
                             rehearsal->steps_per_epoch(), format_bytes(largest),
                             format_bytes(rehearsal->arena_bytes()));
  }
  check_steps(steps);
}

}  // namespace

void add_rehearse(CLI::App& app, const GlobalOptions&) {
  CLI::App* command = app.add_subcommand(
      "rehearse", "Run the largest steps of a run and compare them with the plan");
  auto options = std::make_shared<RehearseOptions>();
  add_trial_options(*command, options->trial);
  command->add_option("--steps", options->steps, "Number of steps to run, the largest first")
      ->check(positive());
  command->footer(example(
      "  sotto rehearse --model tiny --train demo_data/train.jsonl --memory 300MiB --steps 5",
      "demo_data: sotto data demo makes it"));
  command->callback([options] { run_rehearse(*options); });
}

}  // namespace sotto::cli
