#include "cli/commands/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/commands/setting_hint.h"
#include "cli/views/console.h"
#include "sotto/core/error.h"
#include "sotto/core/nearest.h"

namespace sotto::cli {

namespace {

constexpr const char* kAttempted = "reading the command line";

// Returns the innermost parsed command: `prove` in "sotto prove".
const CLI::App& deepest_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  return *command;
}

// Returns the full name, such as "sotto prove memory".
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent ? full_name(*parent) + " " + command.get_name() : command.get_name();
}

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* child : command.get_subcommands({})) names.push_back(child->get_name());
  return names;
}

// Returns the options of the command and of all its parents, which accept theirs anywhere on the
// line.
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::optional<std::string> best = nearest(word, known);
  return best ? fmt::format("Did you mean '{}'?", *best) : std::string();
}

[[noreturn]] void throw_unexpected(const CLI::App& command, const std::vector<std::string>& words) {
  const std::string& word = words.front();
  const std::string name = full_name(command);
  const std::vector<std::string> commands = command_names(command);
  if (word.starts_with('-')) {
    const std::string option = word.substr(0, word.find('='));
    const std::vector<std::string> options = option_names(command);
    const bool takes_settings = std::ranges::find(options, "--set") != options.end();
    std::string hint = takes_settings ? setting_hint(words) : "";
    if (hint.empty()) hint = did_you_mean(option, options);
    if (hint.empty()) hint = fmt::format("'{} --help' lists them.", name);
    throw ConfigError({.attempted = kAttempted,
                       .found = fmt::format("{} has no option '{}'", name, option),
                       .hint = std::move(hint)});
  }
  if (commands.empty()) {
    throw ConfigError({.attempted = kAttempted,
                       .found = fmt::format("{} does not take '{}'", name, word),
                       .hint = fmt::format("See '{} --help'.", name)});
  }
  throw ConfigError({.attempted = kAttempted,
                     .found = fmt::format("{} has no command '{}'", name, word),
                     .expected = fmt::format("one of {}", fmt::join(commands, ", ")),
                     .hint = did_you_mean(word, commands)});
}

void check_command_was_named(const CLI::App& app) {
  const CLI::App& command = deepest_command(app);
  const std::vector<std::string> commands = command_names(command);
  if (commands.empty()) return;
  print_error(app.help() + "\n");
  throw ConfigError({.attempted = kAttempted,
                     .found = "no command was given",
                     .expected = fmt::format("one of {}", fmt::join(commands, ", "))});
}

}  // namespace

void run_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << '\n';
    return;
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> words = app.remaining(true);
    SOTTO_ASSERT(!words.empty());
    throw_unexpected(deepest_command(app), words);
  } catch (const CLI::ParseError& error) {
    std::string found = error.what();
    found.erase(found.find_last_not_of(". \n") + 1);
    throw ConfigError({.attempted = kAttempted,
                       .found = std::move(found),
                       .hint = fmt::format("See '{} --help'.", full_name(deepest_command(app)))});
  }
  check_command_was_named(app);
}

std::string example(const std::string& lines, const std::string& needs) {
  return "Example:\n" + lines + (needs.empty() ? "" : "\nNeeds " + needs);
}

void add_memory_option(CLI::App& command, std::string& memory) {
  command
      .add_option("--memory", memory, "Memory budget: 8GiB, 12GB, 90% (of the free memory) or auto")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("an empty value, expected a size such as 8GiB") : "";
      });
}

}  // namespace sotto::cli
