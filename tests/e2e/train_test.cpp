// `sotto train`, `eval` and the run's files as a user meets them: a run, a kill, a resume, and the
// mistakes that users make.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sotto/core/build_info.h"
#include "sotto/core/run_record.h"
#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

using Train = TrainRuns;

void expect_refusal(const CommandResult& result, int exit_code,
                    const std::vector<std::string>& parts) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  for (const std::string& part : parts) EXPECT_PRED2(contains, result.err, part);
}

TEST_F(Train, LearnsAndLeavesItsFiles) {
  const CommandResult result = train("run", {"--set", "epochs=25", "--set", "checkpoint_every=0"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json summary = nlohmann::json::parse(result.out);
  EXPECT_EQ(summary["steps"], 150);
  EXPECT_LT(summary["best_wer"], 0.3);
  EXPECT_LE(summary["peak_bytes"], 100 << 20);
  EXPECT_PRED2(contains, result.err, "equal to the byte");
  for (const char* file : {"config.yaml", "metrics.jsonl", "memory.json", "best/model.safetensors",
                           "best/vocab.json", "checkpoints/step-150/optimizer.safetensors"})
    EXPECT_TRUE(fs::exists(run("run") / file)) << file;
  const RunRecordContent record = read_run_record(run("run") / "metrics.jsonl");
  EXPECT_EQ(std::count_if(record.records.begin(), record.records.end(),
                          [](const nlohmann::json& line) { return line["kind"] == "step"; }),
            150);

  const CommandResult eval = run_sotto({"eval", "--checkpoint", run("run").string(), "--data",
                                        (folder_.path() / "dev.jsonl").string(), "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  const nlohmann::json evaluated = nlohmann::json::parse(eval.out);
  EXPECT_EQ(evaluated["wer"]["rate"], summary["best_wer"]);
  EXPECT_EQ(evaluated["sentences"].size(), 12u);
}

TEST_F(Train, GoesOnToTheBitAfterAKill) {
  const std::vector<std::string> longer = {"--set", "epochs=20", "--set", "checkpoint_every=5",
                                           "--resume"};
  ASSERT_EQ(train("whole", longer).exit_code, 0);
  // Each time a little farther on: wherever the process is then, in a step or in a save.
  for (const int64_t lines : {3, 21, 50, 66, 99}) {
    const int killed = run_sotto_and_signal(words("killed", longer), SIGKILL,
                                            [&] { return num_lines("killed") > lines; });
    EXPECT_EQ(killed, -SIGKILL);
  }
  ASSERT_EQ(train("killed", longer).exit_code, 0);
  EXPECT_EQ(weights("killed", 120), weights("whole", 120));
}

// The longest utterance does not fit; in two pieces it does, and all of it is learned from.
TEST_F(Train, CutsWhatDoesNotFit) {
  std::string lines = content_of(folder_.path() / "train.jsonl");
  const auto first = nlohmann::json::parse(lines.substr(0, lines.find('\n')));
  nlohmann::json longest = first;
  double seconds = 0.0;
  nlohmann::json segments = nlohmann::json::array();
  int64_t frames = 0;
  for (std::istringstream stream(lines); frames < 3000;) {
    std::string line;
    std::getline(stream, line);
    const auto utterance = nlohmann::json::parse(line);
    const double duration = utterance["duration"];
    segments.push_back({{"offset", seconds}, {"duration", duration}, {"text", utterance["text"]}});
    seconds += duration;
    frames += utterance["num_frames"].get<int64_t>();
  }
  longest["frame_offset"] = 0;
  longest["num_frames"] = frames;
  longest["duration"] = seconds;
  longest["segments"] = segments;
  folder_.write("train.jsonl", lines + longest.dump() + "\n");
  const CommandResult refused = train("refused", {"--memory", "1MiB"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(contains, refused.err, "the longest utterance alone needs");
  const CommandResult cut = train("cut", {"--memory", "1MiB", "--set", "data.too_large=chunk"});
  ASSERT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_PRED2(contains, cut.err, "0 left out");
  const nlohmann::json summary = nlohmann::json::parse(cut.out);
  EXPECT_LE(summary["peak_bytes"], 1 << 20);
  const CommandResult skipped =
      train("skipped", {"--memory", "1MiB", "--set", "data.too_large=skip"});
  ASSERT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_NEAR(summary["audio_seconds"].get<double>(),
              nlohmann::json::parse(skipped.out)["audio_seconds"].get<double>() + 3 * seconds, 0.1);
}

// An interrupt ends the run behind its step, saved, as if it had been asked for.
TEST_F(Train, SavesAndEndsWhenInterrupted) {
  const std::vector<std::string> longer = {"--set", "epochs=20", "--set", "checkpoint_every=1000",
                                           "--resume"};
  ASSERT_EQ(train("whole", longer).exit_code, 0);
  EXPECT_EQ(run_sotto_and_signal(words("stopped", longer), SIGINT,
                                 [&] { return num_lines("stopped") > 20; }),
            0);
  EXPECT_FALSE(fs::exists(run("stopped") / "checkpoints" / "step-120"));
  ASSERT_EQ(train("stopped", longer).exit_code, 0);
  EXPECT_EQ(weights("stopped", 120), weights("whole", 120));
}

TEST_F(Train, GoesOnToTheBitInTheMiddleOfAnEpoch) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("parts", {"--max-steps", "4"}).exit_code, 0);
  // The configuration comes from the checkpoint.
  const CommandResult resumed = run_sotto(
      {"train", "--resume", "--out", run("parts").string(), "--set", "max_steps=0", "--json"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(weights("parts", 18), weights("whole", 18));
}

// With 8-bit moments and a remainder in the checkpoint, random rounding, and a rate that depends on
// evaluations.
TEST_F(Train, GoesOnToTheBitInLeanNumerics) {
  const std::vector<std::string> lean = {"--set", "numerics=bf16-lean",
                                         "--set", "precision.small_below=1",
                                         "--set", "optimizer.schedule.kind=plateau",
                                         "--set", "optimizer.schedule.plateau_patience=0",
                                         "--set", "evaluate_every=2"};
  // Where it is evaluated in any case: one more evaluation would be another plateau.
  std::vector<std::string> cut = lean;
  cut.insert(cut.end(), {"--max-steps", "8"});
  ASSERT_EQ(train("whole", lean).exit_code, 0);
  ASSERT_EQ(train("parts", cut).exit_code, 0);
  const CommandResult resumed = run_sotto(
      {"train", "--resume", "--out", run("parts").string(), "--set", "max_steps=0", "--json"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_TRUE(weights("parts", 18) == weights("whole", 18));
}

TEST_F(Train, RefusesARunThatIsThere) {
  ASSERT_EQ(train("run", {"--max-steps", "2"}).exit_code, 0);
  expect_refusal(train("run"), 2, {"--resume"});
}

TEST_F(Train, PassesOverACheckpointThatWasCutShort) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("cut", {"--max-steps", "6"}).exit_code, 0);
  fs::resize_file(run("cut") / "checkpoints/step-6/optimizer.safetensors", 1000);
  const CommandResult resumed = train("cut", {"--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_PRED2(contains, resumed.err, "step-6 cannot be used");
  EXPECT_EQ(weights("cut", 18), weights("whole", 18));
}

TEST_F(Train, RefusesAnotherShapeOnResume) {
  ASSERT_EQ(train("run", {"--max-steps", "2"}).exit_code, 0);
  expect_refusal(
      train("run", {"--resume", "--set", "model.width=64"}), 2,
      {"another shape", "subsampling.conv1.weight is [32, 24] there and [64, 24] here", " more"});
  expect_refusal(train("run", {"--resume", "--set", "seed=7"}), 2, {"seed was 1 and is 7"});
  write_tiny_corpus(folder_.path(), "train", 50, 1);
  expect_refusal(train("run", {"--resume"}), 2, {"train.jsonl has changed"});
}

TEST_F(Train, RefusesABudgetThatIsTooSmallAndNamesOneThatWouldDo) {
  const CommandResult refused = train("run", {"--memory", "300KiB"});
  expect_refusal(refused, 2, {"--memory ", "would do", "budget of 300 KiB"});
  const size_t at = refused.err.find("--memory ") + 9;
  const std::string named = refused.err.substr(at, refused.err.find(' ', at) - at);
  EXPECT_EQ(train("run", {"--memory", named, "--max-steps", "2"}).exit_code, 0) << named;
}

TEST_F(Train, LeavesOutWhatDoesNotFitWhereThatIsThePolicy) {
  const CommandResult result =
      train("run", {"--memory", "700KiB", "--set", "data.too_large=skip", "--max-steps", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "left out");
}

TEST_F(Train, NamesWhatIsWrongWithTheData) {
  const auto broken = [&](const std::string& line, const std::vector<std::string>& parts) {
    std::ofstream(folder_.path() / "train.jsonl", std::ios::app) << line << '\n';
    expect_refusal(train("run" + parts.back()), 2, parts);
    write_tiny_corpus(folder_.path(), "train", 48, 1);
  };
  broken("{\"feature_filepath\": ", {"train.jsonl", "49"});
  broken(R"({"feature_filepath": "no.f16", "frame_offset": 0, "num_frames": 9, "feature_dim": 8,)"
         R"( "duration": 0.09, "text": "a"})",
         {"no.f16"});
  expect_refusal(train("run", {"--train", "nowhere.jsonl"}), 2, {"nowhere.jsonl"});
  folder_.write("vocab.json", R"({"<pad>": 0, "|": 1, "a": 2, "b": 3, "c": 4})");
  expect_refusal(
      train("run", {"--set", "data.tokenizer=" + (folder_.path() / "vocab.json").string()}), 2,
      {"'d'"});
}

// The tokenizer and the rules go from the configuration into the checkpoint, and from there into
// the evaluation.
TEST_F(Train, LearnsPiecesByRules) {
  if (contains(build_info().text, "no SentencePiece"))
    GTEST_SKIP() << "this build has no SentencePiece";
  const std::string model = (folder_.path() / "pieces.model").string();
  const CommandResult trained =
      run_sotto({"tokenizer", "train", (folder_.path() / "train.jsonl").string(), "--case", "upper",
                 "--size", "10", "--out", model});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const CommandResult result =
      train("run", {"--set", "data.tokenizer=" + model, "--set", "data.text.case=upper"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(content_of(run("run") / "best/tokenizer.model"), content_of(model));
  EXPECT_FALSE(fs::exists(run("run") / "best/vocab.json"));
  const CommandResult eval = run_sotto({"eval", "--checkpoint", run("run").string(), "--data",
                                        (folder_.path() / "dev.jsonl").string(), "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  const nlohmann::json evaluated = nlohmann::json::parse(eval.out);
  for (const nlohmann::json& sentence : evaluated.at("sentences")) {
    const auto reference = sentence.at("reference").get<std::string>();
    EXPECT_EQ(reference.find_first_not_of("ABCD "), std::string::npos) << reference;
  }
  expect_refusal(train("run", {"--set", "data.tokenizer=" + model, "--resume"}), 2,
                 {"the rules of texts, data.text, have changed"});
}

// More labels than frames: counted, named, and the run goes on.
TEST_F(Train, GoesOnWithAnUtteranceThatCannotBeAligned) {
  std::ofstream(folder_.path() / "train.jsonl", std::ios::app)
      << R"({"feature_filepath": "train.f16", "frame_offset": 0, "num_frames": 8, "feature_dim": 8,)"
      << R"( "duration": 0.08, "text": "abcdabcdabcd"})" << '\n';
  const CommandResult result = train("run");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "train.jsonl:49: more labels than frames");
}

TEST_F(Train, RefusesADeviceThatItCannotUse) {
  expect_refusal(train("run", {"--device", "tpu"}), 2, {"'tpu'", "cpu, cuda or cuda:N"});
  expect_refusal(train("run", {"--pretend-device", "t4"}), 2, {"'t4'", "--device cuda"});
  expect_refusal(train("run", {"--set", "numerics=tf32"}), 2, {"tf32", "numerics: fp32"});
  expect_refusal(train("run", {"--set", "precision.remainder_bits=8"}), 2, {"remainder_bits: 8"});
  expect_refusal(train("run", {"--set", "optimizer.rate_factors=[nothing.=2]"}), 2, {"nothing.=2"});
}

}  // namespace
}  // namespace sotto::test
