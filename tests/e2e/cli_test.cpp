// The command line as a user meets it: the real program, its output and its exit code.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <thread>

#include "sotto/core/build_info.h"
#include "support/run_command.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::test {
namespace {

// What every refusal looks like: nothing on standard output, one line on standard error.
void expect_one_line_of_refusal(const CommandResult& result) {
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("sotto: ")) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(Cli, VersionListsComponents) {
  const CommandResult result = run_sotto({"--version"});
  const BuildInfo build = build_info();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "sotto " + build.version + "\ncommit " + build.commit + "\ntorch " +
                            build.torch + "\nCUDA " + build.cuda + "\naudio " + build.audio +
                            "\ntext " + build.text + "\n");
  EXPECT_EQ(result.err, "");
}

TEST(Cli, HelpListsTheCommandsAndGivesAnExample) {
  const CommandResult result = run_sotto({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* part : {"profile", "--version", "--verbose", "Example:"})
    EXPECT_TRUE(contains(result.out, part)) << part << " in\n" << result.out;
}

TEST(Cli, CommandHelpGivesAnExample) {
  const CommandResult result = run_sotto({"profile", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(contains(result.out, "sotto profile [OPTIONS]")) << result.out;
  EXPECT_TRUE(contains(result.out, "Example:\n  sotto profile")) << result.out;
}

// Lines of the example below a command's help, and whether it names what a fresh clone lacks.
struct HelpExample {
  std::vector<std::string> lines;
  bool has_needs = false;
};

HelpExample example_of(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  words.emplace_back("--help");
  std::istringstream help(run_sotto(words).out);
  HelpExample example;
  bool is_example = false;
  for (std::string line; std::getline(help, line);) {
    if (line.starts_with("Needs ")) example.has_needs = true;
    if (is_example && line.starts_with("  sotto ")) example.lines.push_back(line.substr(2));
    is_example = is_example || line == "Example:";
  }
  return example;
}

// As a newcomer types them, with only the configurations of the repository.
TEST(Cli, ExamplesRunAsPrintedOrSayWhatTheyNeed) {
  const TempFolder folder;
  std::filesystem::create_directory_symlink(SOTTO_CONFIGS, folder.path() / "configs");
  const std::filesystem::path binary = std::getenv("SOTTO_BINARY");
  const std::string before = "cd '" + folder.path().string() + "' && PATH='" +
                             binary.parent_path().string() + "':$PATH && ";
  const std::vector<std::vector<std::string>> commands = {{},
                                                          {"profile"},
                                                          {"doctor"},
                                                          {"data"},
                                                          {"data", "import"},
                                                          {"data", "split"},
                                                          {"data", "check"},
                                                          {"data", "text"},
                                                          {"data", "fetch"},
                                                          {"data", "demo"},
                                                          {"tokenizer"},
                                                          {"tokenizer", "train"},
                                                          {"tokenizer", "encode"},
                                                          {"tokenizer", "decode"},
                                                          {"plan"},
                                                          {"rehearse"},
                                                          {"find-batch"},
                                                          {"train"},
                                                          {"eval"},
                                                          {"transcribe"},
                                                          {"average"},
                                                          {"export"},
                                                          {"logits"},
                                                          {"report"},
                                                          {"prove"},
                                                          {"prove", "memory"}};
  for (const std::vector<std::string>& command : commands) {
    const HelpExample example = example_of(command);
    const std::string name = command.empty() ? "sotto" : command.back();
    EXPECT_FALSE(example.lines.empty()) << name;
    if (example.has_needs) continue;
    for (const std::string& line : example.lines) {
      const CommandResult result = test::run_command({"bash", "-c", before + line});
      EXPECT_EQ(result.exit_code, 0) << line << '\n' << result.err;
    }
  }
}

TEST(Cli, UnknownCommandSuggestsNearest) {
  const CommandResult result = run_sotto({"profil"});
  expect_one_line_of_refusal(result);
  EXPECT_TRUE(contains(result.err, "'profil'")) << result.err;
  EXPECT_TRUE(contains(result.err, "Did you mean 'profile'?")) << result.err;
}

TEST(Cli, PrintsErrorsAsJsonOnRequest) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--json-errors", "profil"},
        std::vector<std::string>{"profile", "--model", "tinyy", "--json-errors"},
        std::vector<std::string>{"plan", "--json-errors", "--price", "-3"}}) {
    const CommandResult result = run_sotto(words);
    EXPECT_EQ(result.exit_code, 2);
    const auto error = nlohmann::json::parse(result.err, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(error.is_object()) << result.err;
    EXPECT_EQ(error["error"], "ConfigError");
    EXPECT_EQ(error["exit_code"], 2);
    for (const char* part : {"attempted", "found", "message"}) EXPECT_NE(error[part], "") << part;
  }
}

TEST(Cli, DissimilarCommandListsAll) {
  const CommandResult result = run_sotto({"xyzzy"});
  expect_one_line_of_refusal(result);
  EXPECT_FALSE(contains(result.err, "Did you mean")) << result.err;
  EXPECT_TRUE(contains(result.err, "Expected one of profile")) << result.err;
}

TEST(Cli, UnknownOptionSuggestsNearest) {
  const CommandResult result = run_sotto({"profile", "--jsno=1"});
  expect_one_line_of_refusal(result);
  EXPECT_TRUE(contains(result.err, "no option '--jsno'. Did you mean '--json'?")) << result.err;
  const CommandResult global = run_sotto({"profile", "--verbos"});
  expect_one_line_of_refusal(global);
  EXPECT_TRUE(contains(global.err, "Did you mean '--verbose'?")) << global.err;
}

TEST(Cli, ExtraArgumentIsRefused) {
  const CommandResult result = run_sotto({"profile", "now"});
  expect_one_line_of_refusal(result);
  EXPECT_TRUE(contains(result.err, "'now'")) << result.err;
  expect_one_line_of_refusal(run_sotto({"profile", "profile"}));
}

TEST(Cli, NoCommandPrintsHelpToStderr) {
  const CommandResult result = run_sotto({});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(contains(result.err, "Usage: sotto")) << result.err;
  EXPECT_TRUE(contains(result.err, "\nsotto: ")) << result.err;
}

TEST(Profile, PrintsATable) {
  const CommandResult result = run_sotto({"profile"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* part : {"machine ", "\nCPU ", "\ncores ", "\nRAM ", "\nRAM free ", "GPU"})
    EXPECT_TRUE(contains(result.out, part)) << part << " in\n" << result.out;
}

TEST(Profile, PrintsJsonWithSaneValues) {
  const CommandResult result = run_sotto({"profile", "--json", "--verbose"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("format_version"), 1);
  const auto& host = json.at("host");
  EXPECT_GE(host.at("cores").get<int64_t>(), 1);
  EXPECT_LE(host.at("cores").get<int64_t>(), int64_t{std::thread::hardware_concurrency()});
  EXPECT_GE(host.at("memory_total_bytes").get<int64_t>(), int64_t{256} << 20);
  EXPECT_GT(host.at("memory_free_bytes").get<int64_t>(), 0);
  EXPECT_LE(host.at("memory_free_bytes"), host.at("memory_total_bytes"));
  EXPECT_FALSE(host.at("cpu").get<std::string>().empty());
  EXPECT_TRUE(json.at("gpus").is_array());
  EXPECT_TRUE(!json.at("gpus").empty() || !json.at("notes").empty());
}

TEST(Profile, ListsKnownCards) {
  const CommandResult table = run_sotto({"profile", "--cards"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  for (const char* part : {"\nt4 ", " 14.7 GiB ", "\nrtx5090 ", "\nh200 ", "data sheets"})
    EXPECT_TRUE(contains(table.out, part)) << part << " in\n" << table.out;
  const auto json = nlohmann::json::parse(run_sotto({"profile", "--cards", "--json"}).out);
  std::string names;
  for (const auto& card : json.at("cards")) {
    names += card.at("name").get<std::string>() + " ";
    EXPECT_LT(card.at("usable_bytes").get<double>(),
              1e9 * card.at("nominal_gb").get<double>() * 1.08);
    EXPECT_EQ(card.at("has_bf16").get<bool>(), card.at("capability").get<int>() >= 80);
    EXPECT_EQ(card.at("is_measured").get<bool>(), card.at("name") == "h200");
  }
  for (const char* name : {"t4", "l4", "rtx3060", "rtx3070", "rtx4060ti", "rtx4070", "rtx3090",
                           "rtx4090", "rtx5090", "a10", "a100-40", "a100-80", "h100-80", "h200"})
    EXPECT_TRUE(contains(" " + names, fmt::format(" {} ", name))) << name << " in " << names;
  expect_one_line_of_refusal(run_sotto({"profile", "--cards", "--model", "xls-r-1b"}));
  expect_one_line_of_refusal(run_sotto({"profile", "--cards", "--calibrate"}));
}

// Measurements are stored, and plans use them.
TEST(Profile, StoresCalibration) {
  const TempFolder folder;
  const std::vector<std::string> cache = {"XDG_CACHE_HOME=" + folder.path().string()};
  const CommandResult table = run_sotto({"profile", "--calibrate"}, cache);
  ASSERT_EQ(table.exit_code, 0) << table.err;
  const std::filesystem::path kept = folder.path() / "sotto" / "rates.json";
  ASSERT_TRUE(std::filesystem::exists(kept));
  const std::string before = content_of(kept);
  const CommandResult planned = run_sotto(
      {"plan", "--model", "wav2vec2-base", "--memory", "6GiB", "--out", folder.path().string()},
      cache);
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_EQ(content_of(kept), before);
}

TEST(Profile, ListsGpusAndTheirProcesses) {
  const CommandResult result = run_sotto({"profile"}, {"LD_LIBRARY_PATH=" SOTTO_FAKE_NVML_FOLDER});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part :
       {"driver    580.95.05\n", "CUDA      up to 13.1\n",
        "GPU  name           memory      free  capability  SMs\n",
        "  0  NVIDIA H200   140 GiB   135 GiB         9.0  132\n",
        "  1  Tesla T4     15.0 GiB  15.0 GiB         7.5   40\n", "4242  3.00 GiB\n",
        "4243   unknown\n", "driver and hidden processes", "note: GPU 1, compute processes: "})
    EXPECT_TRUE(contains(result.out, part)) << part << " in\n" << result.out;
}

TEST(Profile, ReportsDriverFailure) {
  const CommandResult result =
      run_sotto({"profile"}, {"LD_LIBRARY_PATH=" SOTTO_FAKE_NVML_FOLDER, "FAKE_NVML_INIT=18"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.out,
                       "no NVIDIA GPU found (libnvidia-ml.so.1 does not start: "
                       "Driver/library version mismatch (NVML status 18))"))
      << result.out;
}

TEST(Doctor, ChecksTheInstallation) {
  const CommandResult result = run_sotto({"doctor"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* part : {"  sotto  ", "  LibTorch  ", "  audio  ", "  text  ", "  threads  ",
                           "  RAM  ", "  CUDA  ", "  runs  ", "  cache  ", "Ready to train, "})
    EXPECT_TRUE(contains(std::regex_replace(result.out, std::regex(" {2,}"), "  "), part))
        << part << " in\n"
        << result.out;
}

TEST(Doctor, PrintsJson) {
  const TempFolder folder;
  const CommandResult result =
      run_sotto({"doctor", "--json"}, {"HF_HOME=" + folder.path().string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("format_version"), 1);
  EXPECT_EQ(json.at("usable"), true);
  std::string hub;
  for (const auto& check : json.at("checks")) {
    EXPECT_TRUE(check.at("verdict") == "ok" || check.at("verdict") == "warning") << check;
    if (check.at("check") == "Hugging Face") hub = check.at("found");
  }
  EXPECT_EQ(hub, "no cache at " + (folder.path() / "hub").string());
}

TEST(Doctor, NamesProcessesThatHoldGpuMemory) {
  const CommandResult result = run_sotto({"doctor"}, {"LD_LIBRARY_PATH=" SOTTO_FAKE_NVML_FOLDER});
  for (const char* part :
       {"580.95.05, CUDA 13.1", "NVIDIA H200, capability 9.0", "135 GiB of 140 GiB free; held by ",
        "(pid 4242) 3.00 GiB", "Tesla T4, capability 7.5", "\n  GPU 0 memory: End the processes"})
    EXPECT_TRUE(contains(result.out, part)) << part << " in\n" << result.out;
  EXPECT_FALSE(contains(result.out, "  GPU 1 memory: ")) << result.out;
}

TEST(Doctor, ProblemsEndWithAnError) {
  const TempFolder folder;
  folder.write("runs", "a file where the folder of runs would be");
  const std::string command =
      "cd '" + folder.path().string() + "' && '" + std::getenv("SOTTO_BINARY") + "' doctor";
  const CommandResult result = run_command({"bash", "-c", command});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.out, "\n1 problem, ")) << result.out;
  EXPECT_TRUE(contains(result.err, "sotto: checking the installation: runs: ")) << result.err;
  EXPECT_TRUE(contains(result.err, "/runs: not writable (Not a directory)")) << result.err;
}

}  // namespace
}  // namespace sotto::test
