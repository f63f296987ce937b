// Plans as a user makes them, without a GPU for one, and what is tried before a run.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

class Plans : public TrainRuns {
 protected:
  nlohmann::json plan(std::vector<std::string> words) const {
    words.insert(words.begin(), "plan");
    words.insert(words.end(), {"--json", "--out", (folder_.path() / "plan").string()});
    const CommandResult result = run_sotto(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  }
  std::string refusal(std::vector<std::string> words) const {
    words.insert(words.begin(), "plan");
    const CommandResult result = run_sotto(words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  }
};

TEST_F(Plans, NeedNoGpuForOne) {
  const nlohmann::json plan =
      this->plan({"--model", "xls-r-1b", "--device", "rtx4070", "--memory", "8GiB"});
  EXPECT_TRUE(plan["elsewhere"]);
  EXPECT_LE(plan["best"]["total_bytes"], int64_t{8} << 30);
  EXPECT_GT(plan["best"]["speed"], 0.0);
  EXPECT_EQ(plan["best"]["numerics"], "bf16-exact");
  EXPECT_EQ(plan["best"]["state"], "host");
  EXPECT_FALSE(plan["reasons"].empty());
  const std::string yaml = content_of(folder_.path() / "plan/plan.yaml");
  EXPECT_PRED2(contains, yaml, "Decided: ");
}

TEST_F(Plans, NeverUseWhatACardDoesNotHave) {
  const nlohmann::json plan = this->plan({"--model", "wav2vec2-base", "--device", "t4"});
  EXPECT_EQ(plan["best"]["numerics"], "fp16");
  EXPECT_LE(plan["best"]["total_bytes"], plan["budget_bytes"]);
}

TEST_F(Plans, AreRefusedWithWhatWouldDo) {
  EXPECT_PRED2(contains, refusal({"--device", "rtx407", "--model", "wav2vec2-base"}),
               "Did you mean 'rtx4070'?");
  const std::string small =
      refusal({"--model", "xls-r-1b", "--device", "rtx4070", "--memory", "2GiB"});
  EXPECT_PRED2(contains, small, "would do");
  EXPECT_PRED2(contains, small, "data.max_seconds");
  EXPECT_PRED2(contains,
               refusal({"--model", "wav2vec2-base", "--device", "rtx4070", "--memory", "80GiB"}),
               "--memory");
}

TEST_F(Plans, StandSideBySide) {
  const CommandResult result =
      run_sotto({"plan", "--model", "wav2vec2-base", "--compare-device", "t4", "l4", "rtx4090"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"device", "t4", "l4", "rtx4090", "fp16", "bf16-exact"})
    EXPECT_PRED2(contains, result.out, part);
  const CommandResult memories = run_sotto({"plan", "--model", "xls-r-1b", "--device", "h200",
                                            "--compare-memory", "2GiB", "8GiB", "40GiB"});
  ASSERT_EQ(memories.exit_code, 0) << memories.err;
  EXPECT_PRED2(contains, memories.out, "does not fit");
}

// A plan is a configuration: trained with it, the run is the one that plans by itself.
TEST_F(Plans, AreTrainedWith) {
  ASSERT_EQ(train("itself").exit_code, 0);
  EXPECT_TRUE(fs::exists(run("itself") / "plan.yaml"));
  const CommandResult planned =
      run_sotto({"train", "--plan", (run("itself") / "plan.yaml").string(), "--out",
                 run("planned").string()});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_EQ(weights("planned", 18), weights("itself", 18));
}

TEST_F(Plans, AreRehearsed) {
  std::vector<std::string> words = this->words("rehearsed", {"--steps", "4"});
  words[0] = "rehearse";
  const auto out = std::ranges::find(words, "--out");
  words.erase(out, out + 2);
  const CommandResult result = run_sotto(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json rehearsal = nlohmann::json::parse(result.out);
  ASSERT_EQ(rehearsal["steps"].size(), 4);
  for (const nlohmann::json& step : rehearsal["steps"])
    EXPECT_EQ(step["measured_peak_bytes"], step["predicted_peak_bytes"]);
}

TEST_F(Plans, FindTheLargestBatchAsPredicted) {
  std::vector<std::string> words = this->words("found", {});
  words[0] = "find-batch";
  const auto out = std::ranges::find(words, "--out");
  words.erase(out, out + 2);
  const CommandResult result = run_sotto(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json found = nlohmann::json::parse(result.out);
  EXPECT_GT(found["tried"], 0);
  EXPECT_EQ(found["tried"], found["predicted"]);
}

}  // namespace
}  // namespace sotto::test
