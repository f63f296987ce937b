// `sotto prove memory` as a user meets it, with the mistakes a user makes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/run_command.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::test {
namespace {

CommandResult prove(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"prove", "memory"});
  return run_sotto(arguments);
}

// One line on standard error that holds all of `parts`, and nothing on standard output.
void expect_refusal(const CommandResult& result, int exit_code,
                    const std::vector<std::string>& parts) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_TRUE(result.err.starts_with("sotto: ")) << result.err;
  for (const std::string& part : parts) EXPECT_PRED2(contains, result.err, part);
}

TEST(ProveMemory, PrintsEqualPeaks) {
  const CommandResult result = prove({"--set", "stacks=[2x32x100]", "--set", "types=[fp32, bf16]"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* part :
       {"2x32x100", "fp32", "bf16", "block", "backward of layer 1", "gemm", "equal to the byte"}) {
    EXPECT_PRED2(contains, result.out, part);
  }
}

TEST(ProveMemory, JsonHasPredictedAndMeasuredBytes) {
  const CommandResult result = prove({"--json", "--memory", "50MiB", "--set", "stacks=[2x32x100]"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["budget_bytes"], 50 << 20);
  ASSERT_EQ(json["steps"].size(), 18u);
  for (const nlohmann::json& step : json["steps"]) {
    EXPECT_TRUE(step["holds"]);
    EXPECT_GT(step["measured"]["peak_bytes"], 0);
    EXPECT_EQ(step["predicted"], step["measured"]);
  }
}

TEST(ProveMemory, CommandLineOverridesConfig) {
  const TempFolder folder;
  const auto file = folder.write("prove.yaml", "stacks: [1x16x50]\ntypes: [fp32]\nmemory: 1GiB\n");
  const CommandResult result = prove({"--config", file, "--memory", "20MiB", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["budget_bytes"], 20 << 20);
  EXPECT_EQ(json["steps"][0]["stack"], "1x16x50");
}

TEST(ProveMemory, TheShippedConfigurationIsTheDefault) {
  const std::filesystem::path file = std::filesystem::path(SOTTO_CONFIGS) / "prove_memory.yaml";
  const CommandResult result =
      prove({"--config", file, "--set", "stacks=[1x16x50]", "--set", "types=[fp32]"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(ProveMemory, RefusesInvalidConfig) {
  const TempFolder folder;
  const auto typo = folder.write("typo.yaml", "stacks: [1x16x50]\ndropuot: 0.1\n");
  expect_refusal(prove({"--config", typo}), 2,
                 {"typo.yaml", "line 2", "dropuot", "Did you mean 'dropout'"});
  const auto range = folder.write("range.yaml", "dropout: 1.5\n");
  expect_refusal(prove({"--config", range}), 2, {"line 1", "1.5", "dropout"});
  const auto type = folder.write("type.json", "{\"seed\": \"one\"}");
  expect_refusal(prove({"--config", type}), 2, {"type.json", "line 1", "seed"});
  const auto stack = folder.write("stack.yaml", "stacks: [4x256]\n");
  expect_refusal(prove({"--config", stack}), 2, {"4x256", "layers x width x frames"});
  expect_refusal(prove({"--set", "stacks=[]"}), 2, {"an empty list of stacks, types or tiers"});
}

TEST(ProveMemory, RefusesMissingEmptyOrBinaryFile) {
  const TempFolder folder;
  expect_refusal(prove({"--config", folder.path() / "none.yaml"}), 2, {"none.yaml"});
  expect_refusal(prove({"--config", folder.write("empty.yaml", "")}), 2, {"empty"});
  expect_refusal(prove({"--config", folder.write("binary.yaml", std::string("\x7f"
                                                                            "ELF\0\0",
                                                                            6))}),
                 2, {"binary"});
  expect_refusal(prove({"--config", folder.path()}), 2, {folder.path().filename().string()});
}

TEST(ProveMemory, RefusesInvalidBudget) {
  expect_refusal(prove({"--memory", "0GiB"}), 2, {"0GiB", "zero"});
  expect_refusal(prove({"--memory", "8"}), 2, {"'8'", "no unit"});
  expect_refusal(prove({"--memory", "900TiB"}), 2, {"900 TiB", "are free", "--memory"});
  expect_refusal(prove({"--memory", "120%"}), 2, {"120%"});
}

TEST(ProveMemory, TooSmallBudgetExitsWithThreeAndNamesSufficientOne) {
  const CommandResult refused =
      prove({"--memory", "100KiB", "--set", "stacks=[2x32x100]", "--set", "types=[fp32]"});
  expect_refusal(refused, 3, {"needs", "100 KiB", "would do"});
  // The budget it names is enough, and one byte less is not.
  const size_t begin = refused.err.find("--memory ") + 9;
  const std::string named = refused.err.substr(begin, refused.err.find(' ', begin) - begin);
  EXPECT_EQ(
      prove({"--memory", named, "--set", "stacks=[2x32x100]", "--set", "types=[fp32]"}).exit_code,
      0);
}

TEST(ProveMemory, UnknownSubcommandIsRefused) {
  const CommandResult result = run_sotto({"prove", "memroy"});
  expect_refusal(result, 2, {"memroy", "memory"});
}

}  // namespace
}  // namespace sotto::test
