// What a user has is not overwritten by what a command writes, and what is named twice is an error.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

class Overwriting : public TrainRuns {
 protected:
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }
  static void expect_refused(const CommandResult& result, const std::string& part) {
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_PRED2(contains, result.err, part);
  }
};

TEST_F(Overwriting, NonEmptyFoldersAreLeftAlone) {
  ASSERT_EQ(train("run", {"--max-steps", "4"}).exit_code, 0);
  folder_.write("mine/diary.txt", "dear diary");
  for (const std::string& out : {at("run"), at("mine")}) {
    expect_refused(run_sotto({"average", at("run"), "--last", "2", "--out", out}),
                   "a folder that is not empty");
    expect_refused(run_sotto({"export", "--model", at("run"), "--out", out}),
                   "a folder that is not empty");
  }
  EXPECT_TRUE(fs::exists(run("run") / "checkpoints/step-4"));
  EXPECT_EQ(content_of(folder_.path() / "mine/diary.txt"), "dear diary");
  fs::create_directories(run("empty"));
  EXPECT_EQ(run_sotto({"average", at("run"), "--last", "2", "--out", at("empty")}).exit_code, 0);
}

TEST_F(Overwriting, InputFilesAreNotOverwritten) {
  const std::string manifest = content_of(folder_.path() / "train.jsonl");
  expect_refused(
      run_sotto({"data", "check", at("train.jsonl"), "--write-clean", at("train.jsonl")}),
      "the input file itself");
  const std::string table = "file,text\na.wav,one\n";
  folder_.write("table.csv", table);
  expect_refused(run_sotto({"data", "check", at("train.jsonl"), "--write-clean", at("table.csv")}),
                 "not a manifest");
  expect_refused(run_sotto({"data", "import", at("table.csv"), "--out", at("table.csv")}),
                 "the input file itself");
  EXPECT_EQ(content_of(folder_.path() / "train.jsonl"), manifest);
  EXPECT_EQ(content_of(folder_.path() / "table.csv"), table);
  // The notes of a user in a configuration.
  const std::string config = "# my notes\n" + content_of(folder_.path() / "tiny.yaml");
  folder_.write("own/config.yaml", config);
  expect_refused(run_sotto({"train", "--config", at("own/config.yaml"), "--out", at("own")}),
                 "the input file itself");
  EXPECT_EQ(content_of(folder_.path() / "own/config.yaml"), config);
}

TEST_F(Overwriting, DuplicateSettingsAreRefused) {
  expect_refused(train("run", {"--memory", "90MiB", "--set", "memory=80MiB"}),
                 "--memory 90MiB and --set memory=80MiB");
  expect_refused(train("run", {"--memory", "90MiB", "--set", "max_memory_gb=1"}), "--memory 90MiB");
  expect_refused(train("run", {"--dev", at("dev.jsonl"), "--set", "data.dev=" + at("train.jsonl")}),
                 "--set data.dev=");
  expect_refused(train("run", {"--max-steps", "2", "--set", "max_steps=5"}), "--max-steps 2");
  ASSERT_EQ(train("run", {"--max-steps", "4"}).exit_code, 0);
  const std::string named = "resume_from_checkpoint=" + at("run/checkpoints/step-2");
  expect_refused(train("run", {"--resume", "--set", named}), "--resume");
}

TEST_F(Overwriting, SettingsWithoutEffectAreRefused) {
  for (const char* setting : {"early_stopping_difference=0.2", "data.too_short=error",
                              "optimizer.schedule.final_ratio=0.5"})
    expect_refused(train("run", {"--set", setting}), "has no effect");
  expect_refused(run_sotto({"train", "--model", "tiny", "--train", at("train.jsonl"), "--memory",
                            "100MiB", "--out", at("run"), "--set", "evaluate_every=2"}),
                 "has no effect");
}

TEST_F(Overwriting, MaxStepsIsTheRunLength) {
  const CommandResult longer = train("run", {"--max-steps", "20"});
  ASSERT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_EQ(nlohmann::json::parse(longer.out)["steps"], 20);
  // It has all of them, and nothing is made up.
  const CommandResult again = train("run", {"--resume"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const nlohmann::json summary = nlohmann::json::parse(again.out);
  EXPECT_EQ(summary["steps"], 20);
  EXPECT_TRUE(summary["loss"].is_null());
  EXPECT_PRED2(contains, again.err, "is at step 20 of 20");
}

TEST_F(Overwriting, FailedOutputIsAnError) {
  ASSERT_EQ(train("run", {"--max-steps", "2"}).exit_code, 0);
  const std::vector<std::string> eval = {"eval",   "--model",       at("run"),
                                         "--data", at("dev.jsonl"), "--json"};
  expect_refused(run_sotto_in_shell(eval, ">/dev/full"), "standard output");
  EXPECT_EQ(run_sotto_in_shell(eval, ">/dev/null").exit_code, 0);
}

}  // namespace
}  // namespace sotto::test
