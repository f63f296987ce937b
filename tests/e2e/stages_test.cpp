// Progressive training as a user meets it: what the terminal, the plan and the report show, kills
// in every stage and in the save at the end of one, and mistakes in the configuration.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "sotto/core/files/run_record.h"
#include "support/faults.h"
#include "support/kills.h"
#include "support/thrown.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

class StagedTraining : public KilledRuns {
 protected:
  StagedTraining() {
    write_config(
        "stages:\n"
        "  - {samples: 25%, epochs: 10, schedule: {rate: 0.01}}\n"
        "  - {samples: 24, steps: 16}\n"
        "  - {samples: all, epochs: 3}\n");
  }
  // Stages of 2, 3 and 6 steps per epoch.
  void write_config(const std::string& stages) {
    const std::string base = folder_.path().string();
    folder_.write("tiny.yaml",
                  "name: tiny\n"
                  "memory: 100MiB\n"
                  "data: {train: " +
                      base + "/train.jsonl, dev: " + base +
                      "/dev.jsonl}\n"
                      "model: {preset: tiny, layers: 2, width: 32, heads: 2, hidden: 64}\n"
                      "optimizer: {schedule: {kind: linear, rate: 0.003, warmup_steps: 4}}\n"
                      "effective_batch: 8\n"
                      "evaluate_every: 5\n"
                      "checkpoint_every: 3\n" +
                      stages);
  }
  std::string tensors(const std::string& out) const {
    const fs::path last = run(out) / "checkpoints/step-54";
    return content_of(last / "model.safetensors") + content_of(last / "optimizer.safetensors");
  }
  std::vector<std::string> record_of(const std::string& out) const {
    std::vector<std::string> lines;
    for (const nlohmann::json& line : read_run_record(run(out) / "metrics.jsonl").records)
      if (line["kind"] != "resume")
        lines.push_back(line["kind"].dump() + line["step"].dump() +
                        (line.contains("loss") ? line["loss"].dump() : ""));
    return lines;
  }
  std::string refusal(const std::string& stages, const std::vector<std::string>& more = {}) {
    write_config(stages);
    const CommandResult result = train("refused", more);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_FALSE(fs::exists(run("refused") / "metrics.jsonl"));
    return result.err;
  }
  static std::vector<std::string> resumed() { return {"--resume"}; }
};

TEST_F(StagedTraining, ShowsEachStage) {
  const CommandResult result = train("run");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["steps"], 54);
  EXPECT_PRED2(contains, result.err, "stage 1 of 3: 25% (12 utterances), steps 1 to 20\n");
  EXPECT_TRUE(std::regex_search(
      result.err, std::regex("stage 2 of 3: 24 \\(24 utterances\\), steps 21 to 36, from the best "
                             "weights of the stage before: step [0-9]+, WER [0-9.]+ %")))
      << result.err;
  EXPECT_PRED2(contains, result.err, "stage 3 of 3: all (48 utterances), steps 37 to 54");
  const nlohmann::json facts = nlohmann::json::parse(content_of(run("run") / "facts.json"));
  EXPECT_EQ(facts["steps"]["total"], 54);
  EXPECT_EQ(facts["steps"]["stages"].size(), 3u);

  const CommandResult report = run_sotto({"report", run("run").string(), "--json"});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  const nlohmann::json reported = nlohmann::json::parse(report.out)["runs"][0];
  ASSERT_EQ(reported["stages"].size(), 3u);
  EXPECT_EQ(reported["stages"][1]["samples"], 24);
  EXPECT_EQ(reported["stages"][1]["steps"], 16);
  EXPECT_EQ(reported["stages"][2]["first_step"], 37);
  EXPECT_EQ(reported["state"], "complete");
  EXPECT_EQ(reported["left_out"], nlohmann::json::array());
  EXPECT_PRED2(contains, run_sotto({"report", run("run").string()}).out, "weights of step");

  // Its configuration starts the same run.
  const CommandResult again = run_sotto({"train", "--config", (run("run") / "config.yaml").string(),
                                         "--out", run("again").string(), "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(tensors("again"), tensors("run"));
  const CommandResult plan = run_sotto({"train", "--plan", (run("run") / "plan.yaml").string(),
                                        "--out", run("planned").string(), "--json"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_EQ(tensors("planned"), tensors("run"));
}

TEST_F(StagedTraining, ResumeBitExactlyAfterKillsInEveryStage) {
  ASSERT_EQ(train("whole", resumed()).exit_code, 0);
  // Lines 27 and 28 of the record are at the end of the first stage, 47 to 49 at that of the
  // second.
  for (const int64_t lines : {8, 24, 25, 26, 27, 28, 38, 47, 48, 49, 58}) {
    const std::string out = "killed" + std::to_string(lines);
    const int killed = run_sotto_and_signal(words(out, resumed()), SIGKILL,
                                            [&] { return num_lines(out) > lines; });
    EXPECT_TRUE(killed == -SIGKILL || killed == 0) << killed;
    ASSERT_EQ(train(out, resumed()).exit_code, 0);
    EXPECT_EQ(tensors(out), tensors("whole")) << lines;
    EXPECT_EQ(record_of(out), record_of("whole")) << lines;
  }
}

TEST_F(StagedTraining, ResumeBitExactlyAfterKillsInSaves) {
  ASSERT_EQ(train("whole", resumed()).exit_code, 0);
  int64_t num_killed = 0;
  for (int64_t lines = 0; lines < 60; lines += 4)
    num_killed += kill_in_a_save("killed", resumed(), lines) ? 1 : 0;
  EXPECT_GE(num_killed, 3);
  ASSERT_EQ(train("killed", resumed()).exit_code, 0);
  EXPECT_EQ(tensors("killed"), tensors("whole"));
  EXPECT_EQ(record_of("killed"), record_of("whole"));
}

// Each call of the save at the end of the first stage fails in turn.
TEST_F(StagedTraining, FailuresOfTheSaveAtTheEndOfAStageLoseNothing) {
  ASSERT_EQ(train("whole", resumed()).exit_code, 0);
  int number = 0;
  for (const std::string rule :
       {"rename:5:/step-20:1", "write:28:/.step-20.partial:1", "write:5:/.step-20.partial:3",
        "fsync:5:/.step-20.partial:2", "open:5:/.step-20.partial*/model.safetensors:1",
        "mkdir:13:/.step-20.partial:1", "rename:5:/step-20", "write:28:/.step-20.partial"}) {
    const std::string out = "run" + std::to_string(++number);
    const CommandResult result = train(out, resumed(), with_faults(rule));
    ASSERT_EQ(result.exit_code, 0) << rule << result.err;
    EXPECT_PRED2(contains, result.err, "no checkpoint was written") << rule;
    EXPECT_EQ(tensors(out), tensors("whole")) << rule;
  }
}

TEST_F(StagedTraining, ArePlanned) {
  const std::string config = (folder_.path() / "tiny.yaml").string();
  const CommandResult json =
      run_sotto({"plan", "--config", config, "--json", "--out", run("p").string()});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const nlohmann::json plan = nlohmann::json::parse(json.out);
  ASSERT_EQ(plan["stages"].size(), 3u);
  EXPECT_EQ(plan["stages"][0]["samples"], 12);
  EXPECT_EQ(plan["stages"][0]["steps"], 20);
  EXPECT_EQ(plan["stages"][1]["steps"], 16);
  EXPECT_EQ(plan["stages"][2]["samples"], 48);
  double seconds = 0.0;
  for (const nlohmann::json& stage : plan["stages"]) seconds += stage["seconds"].get<double>();
  EXPECT_NEAR(plan["best"]["run_seconds"].get<double>(), seconds, 1e-9 + 1e-6 * seconds);
  EXPECT_PRED2(contains, content_of(run("p") / "plan.html"), "Stages");
  const CommandResult text = run_sotto({"plan", "--config", config, "--out", run("q").string()});
  EXPECT_PRED2(contains, text.out, "3 stages of");
  EXPECT_TRUE(std::regex_search(text.out, std::regex("2 +24 +24 +16 "))) << text.out;
  EXPECT_TRUE(std::regex_search(text.out, std::regex("total +54 "))) << text.out;
}

// Where the data is assumed, its size is, too.
TEST_F(StagedTraining, ArePlannedWithoutData) {
  const std::string stages =
      "stages=[{samples: 25%, epochs: 2}, {samples: 100k, epochs: 1}, {samples: all, epochs: 1}]";
  const CommandResult result = run_sotto({"plan", "--model", "wav2vec2-base", "--device", "t4",
                                          "--json", "--out", run("p").string(), "--set", stages});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json plan = nlohmann::json::parse(result.out);
  EXPECT_EQ(plan["stages"][0]["samples"], 25'000);
  EXPECT_EQ(plan["stages"][1]["samples"], 100'000);
  EXPECT_EQ(plan["stages"][2]["samples"], 100'000);
  EXPECT_GT(plan["stages"][1]["seconds"], plan["stages"][0]["seconds"]);
}

TEST_F(StagedTraining, RefuseWhatCannotTakeEffect) {
  EXPECT_PRED2(contains,
               refusal("stages:\n  - {samples: 25, epochs: 1}\n  - {samples: 12, epochs: 1}\n"),
               "stage 2 with 12, after stage 1 with 25");
  EXPECT_PRED2(contains, refusal("stages:\n  - {samples: 100k, epochs: 1}\n"),
               "stage 1 with 100000 samples, and training data with 48");
  EXPECT_PRED2(
      contains, refusal("stages:\n  - {samples: lots, epochs: 1}\n"),
      "line 10, column 15: 'samples' is 'lots'. Expected a number of samples such as 5000");
  EXPECT_PRED2(contains, refusal("stages:\n  - {samples: all}\n"), "line 10, column 5: ");
  EXPECT_PRED2(contains, refusal("stages: [{samples: all, epochs: 1}]\nepochs: 4\n"),
               "epochs: 4 beside stages, which has no effect");
  EXPECT_PRED2(contains, refusal("stages: [{samples: all, epochs: 1}]\n", {"--max-steps", "5"}),
               "max_steps: 5 beside stages, which has no effect");
  EXPECT_PRED2(contains, refusal("stages: [{samples: all, epochs: 1, schedule: {rate: 0.01}}]\n"),
               "optimizer.schedule.rate: 0.003 beside stages, which has no effect");
  EXPECT_PRED2(contains, refusal("stages: 100k\n"), "'stages' is '100k'. Expected a list");
}

// Nothing of the run is lost: it continues with its own stages.
TEST_F(StagedTraining, RefuseOtherStagesOnResume) {
  ASSERT_EQ(
      run_sotto_and_signal(words("run", resumed()), SIGTERM, [&] { return num_lines("run") > 5; }),
      0);
  for (const char* setting :
       {"stages=[{samples: all, epochs: 1}]", "stages=[]", "epochs=4", "max_steps=100"}) {
    const CommandResult refused = train("run", {"--resume", "--set", setting});
    EXPECT_EQ(refused.exit_code, 2) << setting << refused.err;
    EXPECT_PRED2(contains, refused.err, "stages") << setting;
  }
  ASSERT_EQ(train("run", resumed()).exit_code, 0);
  ASSERT_EQ(train("whole").exit_code, 0);
  EXPECT_EQ(tensors("run"), tensors("whole"));
  const CommandResult finished = train("run", resumed());
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_PRED2(contains, finished.err, "the run is at step 54 of 54\n");
}

TEST_F(StagedTraining, RunOnTextToo) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "abcd efgh " + std::to_string(i % 7) + "\n\n";
  folder_.write("text.txt", text);
  const std::string base = folder_.path().string();
  folder_.write(
      "tiny.yaml",
      "name: lm\nmemory: 100MiB\nmodel: {preset: decoder-lm, layers: 1, width: 32, heads: "
      "2, hidden: 64}\neffective_batch: 4\ndata: {train: " +
          base + "/text.txt, dev: " + base + "/text.txt, row_tokens: 16}\n" +
          "stages: [{samples: 25%, epochs: 1}, {samples: all, epochs: 1}]\n");
  const CommandResult result = train("lm");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "rows), steps 1 to ");
  EXPECT_PRED2(contains, result.err, "perplexity");
}

}  // namespace
}  // namespace sotto::test
