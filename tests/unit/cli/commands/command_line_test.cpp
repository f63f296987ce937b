#include "cli/commands/command_line.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "sotto/core/error.h"

namespace sotto::cli {
namespace {

// A program with a command inside a command, as `sotto prove memory` is.
class CommandLine : public testing::Test {
 protected:
  CommandLine() : app_("A program.", "sotto") {
    app_.fallthrough();
    app_.require_subcommand(0, 1);
    app_.add_flag("--verbose", verbose_);
    CLI::App* prove = app_.add_subcommand("prove", "Show that it holds");
    CLI::App* memory = prove->add_subcommand("memory", "The budget");
    memory->add_option("--layers", layers_);
    memory->callback([this] { ++num_runs_; });
  }

  void run(std::vector<std::string> words) {
    words.insert(words.begin(), "sotto");
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    run_command_line(app_, static_cast<int>(pointers.size()), pointers.data());
  }

  std::string refusal_of(const std::vector<std::string>& words) {
    try {
      run(words);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "not refused";
  }

  CLI::App app_;
  bool verbose_ = false;
  int layers_ = 0;
  int num_runs_ = 0;
};

TEST_F(CommandLine, RunsSubcommands) {
  run({"prove", "memory", "--layers", "3", "--verbose"});
  EXPECT_EQ(num_runs_, 1);
  EXPECT_EQ(layers_, 3);
  EXPECT_TRUE(verbose_);
}

TEST_F(CommandLine, MissingSubcommandPrintsHelp) {
  testing::internal::CaptureStderr();
  const std::string refusal = refusal_of({"prove"});
  const std::string help = testing::internal::GetCapturedStderr();
  EXPECT_EQ(refusal, "reading the command line: no command was given. Expected one of memory.");
  EXPECT_NE(help.find("Usage: sotto prove"), std::string::npos) << help;
}

TEST_F(CommandLine, MistypedSubcommandSuggestsNearest) {
  EXPECT_EQ(refusal_of({"prove", "memroy"}),
            "reading the command line: sotto prove has no command 'memroy'. Expected one of "
            "memory. Did you mean 'memory'?");
}

TEST_F(CommandLine, MistypedOptionSuggestsOptionsOfAllCommands) {
  EXPECT_EQ(refusal_of({"prove", "memory", "--layer=3"}),
            "reading the command line: sotto prove memory has no option '--layer'. Did you mean "
            "'--layers'?");
  EXPECT_EQ(refusal_of({"prove", "memory", "--vrebose"}),
            "reading the command line: sotto prove memory has no option '--vrebose'. Did you mean "
            "'--verbose'?");
  EXPECT_EQ(num_runs_, 0);
}

// Options as people type them for other tools.
TEST_F(CommandLine, SettingsGivenAsOptionsSuggestSet) {
  std::vector<std::string> settings;
  CLI::App* train = app_.add_subcommand("train", "Train");
  train->add_option("--set", settings)->allow_extra_args(false);
  const auto hint = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "train");
    const std::string refusal = refusal_of(words);
    return refusal.substr(std::min(refusal.find("Type: "), refusal.size()));
  };
  EXPECT_EQ(hint({"--epochs", "3"}), "Type: --set epochs=3");
  EXPECT_EQ(hint({"--batch-size", "4"}), "Type: --set effective_batch=4");
  EXPECT_EQ(hint({"--lr", "1e-4"}), "Type: --set optimizer.schedule.rate=1e-4");
  EXPECT_EQ(hint({"--learning-rate=1e-4"}), "Type: --set optimizer.schedule.rate=1e-4");
  EXPECT_EQ(hint({"--weight-decay"}), "Type: --set optimizer.weight_decay=VALUE");
  EXPECT_EQ(hint({"--epochs", "3", "--num-workers", "2", "--set", "seed=7", "--lr=1"}),
            "Type: --set epochs=3 --set data.loader_threads=2 --set optimizer.schedule.rate=1");
  EXPECT_EQ(hint({"--speed", "3"}), "");
  EXPECT_EQ(refusal_of({"prove", "memory", "--epochs", "3"}).find("--set"), std::string::npos);
}

TEST_F(CommandLine, InvalidValueNamesItsOption) {
  const std::string refusal = refusal_of({"prove", "memory", "--layers", "many"});
  EXPECT_NE(refusal.find("--layers"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("'sotto prove memory --help'"), std::string::npos) << refusal;
  EXPECT_EQ(num_runs_, 0);
}

}  // namespace
}  // namespace sotto::cli
