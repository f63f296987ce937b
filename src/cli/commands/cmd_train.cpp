// `sotto train`: trains within a budget, from scratch or from the latest checkpoint.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/commands/failure.h"
#include "cli/commands/json_events.h"
#include "cli/commands/number_checks.h"
#include "cli/commands/run_options.h"
#include "cli/commands/stop_signal.h"
#include "cli/views/console.h"
#include "cli/views/json_text.h"
#include "cli/views/train_view.h"
#include "sotto/core/build_info.h"
#include "sotto/core/files/log.h"
#include "sotto/core/units.h"
#include "sotto/plan/run/planned_training.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;

struct TrainOptions {
  plan::RunDescription run;
  std::string pretended;
  int64_t failing_step = 0;
  std::string out;
  std::string json_events;
  int64_t log_every = 50;
  bool resume = false;
  bool json = false;
};

// A run that was already complete has trained nothing: returns null.
nlohmann::ordered_json or_null(const train::RunSummary& summary, const auto& value) {
  return summary.num_steps > 0 ? nlohmann::ordered_json(value) : nullptr;
}

nlohmann::ordered_json to_json(const train::RunSummary& summary, const fs::path& folder) {
  nlohmann::ordered_json json = {{"format_version", 1},
                                 {"folder", folder.string()},
                                 {"steps", summary.steps},
                                 {"stopped", summary.was_stopped},
                                 {"ended_early", summary.ended_early},
                                 {"loss", or_null(summary, summary.loss)},
                                 {"peak_bytes", or_null(summary, summary.peak_bytes)},
                                 {"restarts", summary.num_restarts},
                                 {"seconds", summary.seconds}};
  if (summary.num_tokens > 0) {
    json["tokens"] = summary.num_tokens;
  } else {
    json["audio_seconds"] = summary.audio_seconds;
  }
  if (const std::optional<train::Evaluation>& last = summary.last_evaluation) {
    // Null where no best checkpoint could be written.
    const nlohmann::ordered_json best =
        summary.best_step > 0 ? nlohmann::ordered_json(summary.best_metric) : nullptr;
    if (last->task->is_text()) {
      json["perplexity"] = last->perplexity();
      json["best_perplexity"] = best;
    } else {
      json["wer"] = last->words.rate();
      json["cer"] = last->characters.rate();
      json["best_wer"] = best;
    }
    json["best_step"] = summary.best_step;
  }
  return json;
}

const char* end_text(const train::RunSummary& summary) {
  if (summary.was_stopped) return "Stopped and saved";
  return summary.ended_early ? "Stopped early, because evaluations did not improve," : "Done";
}

std::string summary_text(const train::RunSummary& summary, const fs::path& folder) {
  if (summary.num_steps == 0)
    return fmt::format("Nothing was trained: the run is at step {}\nFiles: {}\n", summary.steps,
                       folder.string());
  const Amount amount{.audio_seconds = summary.audio_seconds, .num_tokens = summary.num_tokens};
  std::string text =
      fmt::format("{} after step {}: loss {:.4f}, peak {}, {} in {} ({})\n", end_text(summary),
                  summary.steps, summary.loss, format_bytes(summary.peak_bytes), describe(amount),
                  format_duration(summary.seconds), describe_speed(amount, summary.seconds));
  if (const std::optional<train::Evaluation>& last = summary.last_evaluation) {
    text += describe(*last);
    text += summary.best_step > 0
                ? fmt::format("; best {} at step {}\n", metric_text(*last, summary.best_metric),
                              summary.best_step)
                : "; no best checkpoint was written\n";
  }
  return text + fmt::format("Files: {}\n", folder.string());
}

// Also writes the log to the run's folder, where the logs of all its processes are appended.
void keep_log_in(const fs::path& folder) {
  const BuildInfo build = build_info();
  keep_log(folder / "log.txt",
           fmt::format("format_version 1, sotto {}, commit {}\n", build.version, build.commit));
}

// `stream`: receives the events of the run; may be null.
void train_and_print(const TrainOptions& options, JsonEvents* stream) {
  TrainView view(options.log_every);
  std::optional<plan::PlannedTraining> training;
  plan::TrainingEvents events{.run = view.events(),
                              .shared = show_shared_device,
                              .decided =
                                  [&](const std::vector<plan::Reason>& reasons) {
                                    view.clear_bar();
                                    show_reasons(reasons);
                                  },
                              .advised = print_error};
  // The run's folder exists when the plan is reported.
  events.run.planned = [&, show = events.run.planned](const train::RunPlan& plan) {
    keep_log_in(training->folder());
    show(plan);
  };
  events.run.should_stop = is_asked_to_end;
  if (stream) stream->follow(events);
  training.emplace(plan::TrainingRequest{.run = options.run,
                                         .folder = options.out,
                                         .resumes = options.resume,
                                         .pretended_device = options.pretended,
                                         .failing_step = options.failing_step},
                   std::move(events));
  listen_to_signals();
  const train::RunSummary summary = training->run();
  const std::string text = summary_text(summary, training->folder());
  add_to_kept_log(text);
  const nlohmann::ordered_json json = to_json(summary, training->folder());
  if (stream) stream->finish(json);
  std::cout << (options.json ? json_text(json) : text);
}

void run_train(const TrainOptions& options) {
  survive_broken_pipes();
  if (options.json_events.empty()) return train_and_print(options, nullptr);
  JsonEvents stream(options.json_events);
  try {
    train_and_print(options, &stream);
  } catch (...) {
    stream.fail(describe_current_exception());
    throw;
  }
}

}  // namespace

void add_train(CLI::App& app, const GlobalOptions&) {
  CLI::App* command = app.add_subcommand("train", "Train a model inside a memory budget");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<TrainOptions>();
  add_run_options(*command, options->run);
  // A plan is a configuration without open settings.
  command
      ->add_option("--plan", options->run.config,
                   "Train with this plan.yaml, written by sotto plan")
      ->excludes(command->get_option("--config"));
  add_pretend_option(*command, options->pretended);
  command->add_option("--out", options->out,
                      "Folder of the run (runs/NAME, or runs/MODEL-N without a name)");
  command
      ->add_option("--max-steps", options->run.max_steps,
                   "Total number of updates; with --resume, the step to stop at or to extend to")
      ->check(positive());
  command->add_option("--log-every", options->log_every, "Number of updates between log lines")
      ->check(positive());
  command->add_flag("--resume", options->resume,
                    "Continue from the latest checkpoint of the run, with its configuration; "
                    "without --out, of the latest run of that name");
  command
      ->add_option("--inject-oom", options->failing_step,
                   "Let memory run out once in this step, to see how the run recovers")
      ->check(positive());
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->add_option("--json-events", options->json_events,
                      "Also write what happens to this file, one JSON object per line");
  command->footer(
      example("  sotto data demo --out demo_data\n"
              "  sotto train --model tiny --train demo_data/train.jsonl --dev "
              "demo_data/dev.jsonl --memory 300MiB",
              "espeak-ng, which speaks the demo corpus; or manifests of your own"));
  command->callback([options] { run_train(*options); });
}

}  // namespace sotto::cli
