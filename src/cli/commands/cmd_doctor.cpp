// `sotto doctor`: checks the installation.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/views/installation_view.h"
#include "cli/views/json_text.h"
#include "sotto/core/error.h"
#include "sotto/device/installation_check.h"

namespace sotto::cli {

namespace {

void run_doctor(bool as_json) {
  const std::vector<device::Check> checks = device::check_installation(device::read_installation());
  std::cout << (as_json ? json_text(installation_json(checks)) : installation_text(checks));
  const auto problem =
      std::ranges::find(checks, device::Check::Verdict::kProblem, &device::Check::verdict);
  if (problem == checks.end()) return;
  std::cout.flush();
  throw ConfigError({.attempted = "checking the installation",
                     .found = fmt::format("{}: {}", problem->subject, problem->found),
                     .expected = "no problem that stops training",
                     .hint = problem->advice});
}

}  // namespace

void add_doctor(CLI::App& app, const GlobalOptions&) {
  CLI::App* command = app.add_subcommand("doctor", "Check the installation and this machine");
  auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "Print the checks as JSON");
  command->footer(example("  sotto doctor"));
  command->callback([as_json] { run_doctor(*as_json); });
}

}  // namespace sotto::cli
