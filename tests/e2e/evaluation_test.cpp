// What `sotto eval` takes and what it leaves out: the settings of training do not cut what is
// evaluated on, those of the command do, and whoever reads the result sees how many are missing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sotto/core/files/run_record.h"
#include "support/byte_vocabulary.h"
#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

constexpr int64_t kDevUtterances = 12;

class EvaluationRuns : public TrainRuns {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  CommandResult eval(const std::string& manifest, std::vector<std::string> more) const {
    more.insert(more.begin(), {"eval", "--model", path("run"), "--data", path(manifest)});
    return run_sotto(more);
  }
  nlohmann::json evaluate(const std::string& manifest,
                          const std::vector<std::string>& settings) const {
    std::vector<std::string> words = {"--json"};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    const CommandResult result = eval(manifest, words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }

  // Seconds of the utterances of the dev manifest, the shortest first.
  std::vector<double> durations() const {
    std::vector<double> seconds;
    std::istringstream lines(content_of(folder_.path() / "dev.jsonl"));
    for (std::string line; std::getline(lines, line);)
      seconds.push_back(nlohmann::json::parse(line)["duration"]);
    std::ranges::sort(seconds);
    return seconds;
  }
};

TEST_F(EvaluationRuns, IgnoreTrainingDataLimits) {
  const std::vector<double> seconds = durations();
  const std::string bound = fmt::format("data.max_seconds={}", seconds[kDevUtterances / 2]);
  ASSERT_EQ(train("run", {"--max-steps", "2", "--set", "data.max_samples=8", "--set", bound,
                          "--set", "data.too_long=skip"})
                .exit_code,
            0);
  const nlohmann::json all = evaluate("dev.jsonl", {});
  EXPECT_EQ(all["utterances"], kDevUtterances);
  EXPECT_EQ(all["skipped"], 0);
  EXPECT_EQ(evaluate("dev.jsonl", {"data.max_samples=5"})["utterances"], 5);
}

TEST_F(EvaluationRuns, HonourTheirOwnLimitsAndCountSkipped) {
  ASSERT_EQ(train("run", {"--max-steps", "2"}).exit_code, 0);
  const std::vector<double> seconds = durations();
  const double bound = seconds[kDevUtterances / 2];
  const auto num_longer = std::ranges::count_if(seconds, [&](double s) { return s > bound; });
  const auto num_shorter = std::ranges::count_if(seconds, [&](double s) { return s < bound; });
  ASSERT_GT(num_longer, 1);
  ASSERT_GT(num_shorter, 1);
  const std::string most = fmt::format("data.max_seconds={}", bound);

  const nlohmann::json shorter = evaluate("dev.jsonl", {most});
  EXPECT_EQ(shorter["utterances"], kDevUtterances - num_longer);
  EXPECT_EQ(shorter["skipped"], num_longer);
  ASSERT_EQ(shorter["skipped_reasons"].size(), static_cast<size_t>(num_longer));
  EXPECT_PRED2(contains, shorter["skipped_reasons"][0].get<std::string>(), "max_seconds");
  const nlohmann::json longer = evaluate("dev.jsonl", {fmt::format("data.min_seconds={}", bound)});
  EXPECT_EQ(longer["skipped"], num_shorter);

  const CommandResult shown = eval("dev.jsonl", {"--set", most});
  EXPECT_PRED2(contains, shown.out, fmt::format("\n{} utterances skipped\n", num_longer));
  EXPECT_PRED2(contains, shown.out, "skipped: line ");
  const CommandResult refused = eval("dev.jsonl", {"--set", most, "--set", "data.too_long=error"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(contains, refused.err, "max_seconds");
  // Without a bound there is nothing that it could say.
  const CommandResult idle = eval("dev.jsonl", {"--set", "data.too_long=error"});
  EXPECT_EQ(idle.exit_code, 2);
  EXPECT_PRED2(contains, idle.err, "--set data.too_long=error without data.max_seconds");
}

TEST_F(EvaluationRuns, CountBrokenLinesAndShowTheFirst) {
  std::string lines = content_of(folder_.path() / "dev.jsonl");
  for (int i = 0; i < 25; ++i) lines += "{broken\n";
  folder_.write("dev.jsonl", lines);
  const CommandResult trained = train("run", {"--max-steps", "2", "--set", "data.broken=skip"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_PRED2(contains, trained.err, "; 25 skipped");
  int64_t num_evaluations = 0;
  for (const nlohmann::json& line : read_run_record(run("run") / "metrics.jsonl").records) {
    if (line["kind"] != "evaluation") continue;
    ++num_evaluations;
    EXPECT_EQ(line["skipped"], 25);
  }
  EXPECT_GT(num_evaluations, 0);
  EXPECT_EQ(evaluate("dev.jsonl", {})["skipped"], 25);
  const CommandResult shown = eval("dev.jsonl", {});
  EXPECT_PRED2(contains, shown.out, "25 utterances skipped\n");
  EXPECT_PRED2(contains, shown.out, "and 5 more; --json lists 25\n");
}

TEST_F(EvaluationRuns, NormaliseTextsOnRequest) {
  ASSERT_EQ(train("run", {"--max-steps", "2"}).exit_code, 0);
  const nlohmann::json plain = evaluate("dev.jsonl", {});
  EXPECT_EQ(plain["normalizer"], "none");
  const nlohmann::json split =
      evaluate("dev.jsonl", {"decode.normalizer=basic", "decode.split_letters=true"});
  EXPECT_EQ(split["normalizer"], "basic");
  std::string letters;
  for (const char c : plain["sentences"][0]["reference"].get<std::string>()) {
    if (c != ' ') letters += std::string(letters.empty() ? "" : " ") + c;
  }
  EXPECT_EQ(split["sentences"][0]["reference"], letters);
  EXPECT_GT(split["wer"]["reference"], plain["wer"]["reference"]);

  const CommandResult refused = eval("dev.jsonl", {"--set", "decode.normalizer=english"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(contains, refused.err, "decode.spellings: FILE");
  folder_.write("british.json", R"({"colour": "color"})");
  const CommandResult none = run_sotto({"transcribe", "--model", path("run"), "--set",
                                        "decode.normalizer=basic", path("missing.wav")});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_PRED2(contains, none.err, "decode.normalizer=basic, which has no effect");
  const nlohmann::json english = evaluate(
      "dev.jsonl", {"decode.normalizer=english", "decode.spellings=" + path("british.json")});
  EXPECT_EQ(english["normalizer"], "english");
}

// A byte-level BPE is the tokenizer of a CTC network, of its checkpoints, and of what is exported.
TEST_F(EvaluationRuns, WorkWithAByteLevelBpe) {
  const TempFolder whisper;
  write_tiny_whisper(whisper);
  const std::string tokenizer = "data.tokenizer=" + whisper.path().string();
  const CommandResult trained =
      train("run", {"--max-steps", "4", "--set", tokenizer, "--set", "decode.normalizer=english"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const nlohmann::json evaluated = evaluate("dev.jsonl", {});
  EXPECT_EQ(evaluated["utterances"], kDevUtterances);
  EXPECT_EQ(evaluated["normalizer"], "english");
  ASSERT_EQ(run_sotto({"export", "--model", path("run"), "--out", path("hub")}).exit_code, 0);
  for (const char* name : {"vocab.json", "merges.txt", "added_tokens.json", "normalizer.json"})
    EXPECT_EQ(content_of(run("hub") / name), content_of(whisper.path() / name)) << name;
  EXPECT_FALSE(std::filesystem::exists(run("hub") / "tokenizer_config.json"));
  EXPECT_PRED2(contains, content_of(run("hub") / "README.md"), "byte-level BPE");
  const CommandResult again =
      run_sotto({"eval", "--model", path("hub"), "--data", path("dev.jsonl"), "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out)["wer"], evaluated["wer"]);
}

}  // namespace
}  // namespace sotto::test
