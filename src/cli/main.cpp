// The program `sotto`: parses the command line and runs one command. It is the only place that
// turns errors into exit codes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <string>
#include <string_view>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/commands/failure.h"
#include "cli/commands/process_limits.h"
#include "cli/views/console.h"
#include "cli/views/json_text.h"
#include "sotto/core/build_info.h"
#include "sotto/core/files/log.h"
#include "sotto/device/cpu_level.h"
#include "sotto/device/host_info.h"

namespace {

std::string describe_version() {
  const sotto::BuildInfo build = sotto::build_info();
  return fmt::format("sotto {}\ncommit {}\ntorch {}\nCUDA {}\naudio {}\ntext {}", build.version,
                     build.commit, build.torch, build.cuda, build.audio, build.text);
}

constexpr const char* kJsonErrors = "--json-errors";

// Known before the command line is parsed, because it also applies to an error there.
bool wants_json_errors(int argc, char** argv) {
  return std::any_of(argv, argv + argc, [](std::string_view word) { return word == kJsonErrors; });
}

void run(int argc, char** argv) {
  CLI::App app("Trains speech transformers inside a memory budget.", "sotto");
  sotto::cli::GlobalOptions global;
  app.set_version_flag("--version", describe_version, "Print versions and exit");
  app.add_flag("--verbose", global.verbose, "Print more log messages");
  app.add_flag(kJsonErrors)->description("Print an error as one line of JSON");
  // Global options may also follow the command.
  app.fallthrough();
  app.require_subcommand(0, 1);
  app.parse_complete_callback([&global] { sotto::start_log(global.verbose); });

  sotto::cli::add_profile(app, global);
  sotto::cli::add_doctor(app, global);
  sotto::cli::add_data(app, global);
  sotto::cli::add_tokenizer(app, global);
  sotto::cli::add_plan(app, global);
  sotto::cli::add_rehearse(app, global);
  sotto::cli::add_find_batch(app, global);
  sotto::cli::add_train(app, global);
  sotto::cli::add_eval(app, global);
  sotto::cli::add_transcribe(app, global);
  sotto::cli::add_average(app, global);
  sotto::cli::add_export(app, global);
  sotto::cli::add_logits(app, global);
  sotto::cli::add_report(app, global);
  sotto::cli::add_lab(app, global);
  sotto::cli::add_prove(app, global);

  app.footer(sotto::cli::example("  sotto profile"));
  sotto::cli::run_command_line(app, argc, argv);
  // A run is complete without its summary; the output of other commands is their result.
  if (!app.got_subcommand("train")) sotto::cli::check_printed();
}

// Returns the failure as JSON, or the text where that cannot be made: main has to end with a
// message.
std::string json_or(const std::string& text, const sotto::cli::Failure& failure) {
  try {
    return sotto::cli::json_text(sotto::cli::failure_json(failure), -1);
  } catch (const std::exception&) {
    return text;
  }
}

}  // namespace

int main(int argc, char** argv) {
  sotto::cli::open_missing_streams();
  try {
    sotto::cli::prepare_process();
    sotto::device::check_cpu_level(sotto::build_info().cpu_level,
                                   sotto::device::read_cpu_features());
    run(argc, argv);
    return 0;
  } catch (...) {
    const sotto::cli::Failure failure = sotto::cli::describe_current_exception();
    const std::string text = fmt::format("sotto: {}\n", failure.message);
    sotto::cli::print_error(wants_json_errors(argc, argv) ? json_or(text, failure) : text);
    sotto::add_to_kept_log(text);
    return failure.exit_code;
  }
}
