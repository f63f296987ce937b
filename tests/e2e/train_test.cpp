// `sotto train`, `eval` and the run's files as a user meets them: a run, a kill, a resume, and the
// mistakes that users make.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "sotto/core/build_info.h"
#include "sotto/core/files/run_record.h"
#include "sotto/core/units.h"
#include "sotto/report/table.h"
#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

using Train = TrainRuns;

TEST_F(Train, LearnsAndWritesItsFiles) {
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

// All decisions fit into a terminal of 80 by 24; the details are in plan.yaml.
TEST_F(Train, ShowsItsDecisionsOnOneScreen) {
  const CommandResult result = train("run", {"--max-steps", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string shown = result.err.substr(0, result.err.find("memory of the first step"));
  int64_t num_lines = 0;
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line); ++num_lines)
    EXPECT_LE(report::display_width(line), 80) << line;
  EXPECT_LE(num_lines, 24);
  for (const char* key : {"numerics", "optimizer.state", "tier", "max_frames",
                          "data.loader_threads", "checkpoint_seconds", "evaluation"})
    EXPECT_PRED2(contains, shown, "\n" + std::string(key) + "  ");
  EXPECT_FALSE(contains(shown, "others would save memory but no time"));
  EXPECT_PRED2(contains, content_of(run("run") / "plan.yaml"),
               "others would save memory but no time");
  const CommandResult verbose = train("verbose", {"--max-steps", "1", "--verbose"});
  EXPECT_PRED2(contains, verbose.err, "others would save memory but no time");
}

TEST_F(Train, ResumesBitExactlyAfterKill) {
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
  // One line a step, an evaluation: those that were run again are there once.
  const auto lines = [&](const std::string& out) {
    std::vector<std::string> all;
    for (const nlohmann::json& line : read_run_record(run(out) / "metrics.jsonl").records)
      if (line["kind"] != "resume")
        all.push_back(line["kind"].dump() + line["step"].dump() + line["loss"].dump());
    return all;
  };
  EXPECT_EQ(lines("killed"), lines("whole"));
}

// The budget below which a run is refused, as the refusal names it.
int64_t bytes_needed(const CommandResult& refused) {
  std::smatch needs;
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(std::regex_search(refused.err, needs,
                                std::regex("the longest utterance alone needs ([0-9.]+) ([KM]iB)")))
      << refused.err;
  return needs.empty() ? 0 : MemorySize::parse(needs[1].str() + needs[2].str()).bytes;
}

// The longest utterance does not fit, but its two pieces do, and both are trained on.
TEST_F(Train, CutsUtterancesThatDoNotFit) {
  const int64_t others_need = bytes_needed(train("refused", {"--memory", "400KiB"}));
  std::string lines = content_of(folder_.path() / "train.jsonl");
  nlohmann::json longest = nlohmann::json::parse(lines.substr(0, lines.find('\n')));
  double seconds = 0.0;
  nlohmann::json segments = nlohmann::json::array();
  int64_t frames = 0;
  for (std::istringstream stream(lines); frames < 1500;) {
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
  const int64_t longest_needs = bytes_needed(train("refused", {"--memory", "400KiB"}));
  // Between the two; how much they are depends on the CPU's products.
  const int64_t kibibytes = (others_need + 2 * longest_needs) / 3 / 1024;
  const std::string memory = std::to_string(kibibytes) + "KiB";
  EXPECT_EQ(train("refused", {"--memory", memory}).exit_code, 2);
  const CommandResult cut = train("cut", {"--memory", memory, "--set", "data.too_large=chunk"});
  ASSERT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_PRED2(contains, cut.err, "0 skipped");
  const nlohmann::json summary = nlohmann::json::parse(cut.out);
  EXPECT_LE(summary["peak_bytes"], kibibytes * 1024);
  const CommandResult skipped =
      train("skipped", {"--memory", memory, "--set", "data.too_large=skip"});
  ASSERT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_NEAR(summary["audio_seconds"].get<double>(),
              nlohmann::json::parse(skipped.out)["audio_seconds"].get<double>() + 3 * seconds, 0.1);
}

// Limits learned for one budget do not apply to another.
TEST_F(Train, RecomputesLimitsForAnotherBudget) {
  ASSERT_EQ(train("run", {"--max-steps", "4"}).exit_code, 0);
  const auto state =
      nlohmann::json::parse(content_of(run("run") / "checkpoints/step-4/state.json"));
  const nlohmann::json named = {{"max_frames", nullptr},
                                {"max_labels", nullptr},
                                {"max_utterances", nullptr},
                                {"adaptive", true}};
  const nlohmann::json learned = {
      {"format_version", 1},
      {"limits", {{"max_frames", 300}}},
      {"learned_for", {{"memory", "100MiB"}, {"device", state["device"]}, {"limits", named}}}};
  folder_.write("run/limits.json", learned.dump());
  const CommandResult same = train("run", {"--resume", "--max-steps", "6"});
  ASSERT_EQ(same.exit_code, 0) << same.err;
  EXPECT_FALSE(contains(same.err, "per micro-batch now")) << same.err;
  const CommandResult other = train("run", {"--resume", "--max-steps", "8", "--memory", "90MiB"});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_PRED2(contains, other.err, "per micro-batch now, 300 frames before");
  EXPECT_FALSE(contains(content_of(run("run") / "limits.json"), "300"));
}

// The best checkpoint on other data is not comparable, but it is kept.
TEST_F(Train, SetsBestAsideIfEvaluationDataChanges) {
  ASSERT_EQ(train("run", {"--max-steps", "12"}).exit_code, 0);
  ASSERT_TRUE(fs::exists(run("run") / "best"));
  const fs::path other = test::write_tiny_corpus(folder_.path(), "other", 12, 9);
  const CommandResult resumed =
      train("run", {"--resume", "--max-steps", "18", "--dev", other.string()});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_PRED2(contains, resumed.err, "the evaluation data has changed");
  EXPECT_TRUE(fs::exists(run("run") / "best.aside/state.json"));
  const auto best = nlohmann::json::parse(content_of(run("run") / "best/state.json"));
  EXPECT_GT(best["best_step"], 12);
}

// A step without data has no loss, and the average of the epoch ignores it.
TEST_F(Train, ReportsStepsWithoutData) {
  // Two utterances of which nothing can be read.
  std::string lines;
  std::istringstream manifest(content_of(folder_.path() / "train.jsonl"));
  int64_t number = 0;
  for (std::string line; std::getline(manifest, line); ++number) {
    auto utterance = nlohmann::json::parse(line);
    if (number == 3 || number == 20) utterance["feature_filepath"] = "absent.f16";
    lines += utterance.dump() + "\n";
  }
  folder_.write("train.jsonl", lines);
  const CommandResult result = train(
      "run", {"--set", "effective_batch=1", "--set", "epochs=1", "--set", "data.broken=skip"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "all of its utterances were skipped");
  EXPECT_FALSE(contains(result.err, "not finite")) << result.err;
  EXPECT_FALSE(contains(result.err, "mean loss nan")) << result.err;
  EXPECT_PRED2(contains, content_of(run("run") / "metrics.jsonl"), "\"loss\":\"nan\"");
}

// An interrupt saves and ends the run after its step, as if it had been requested.
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

TEST_F(Train, ResumesBitExactlyMidEpoch) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("parts", {"--max-steps", "4"}).exit_code, 0);
  // The configuration comes from the checkpoint.
  const CommandResult resumed = run_sotto(
      {"train", "--resume", "--out", run("parts").string(), "--set", "max_steps=0", "--json"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(weights("parts", 18), weights("whole", 18));
}

// With 8-bit moments and a remainder in the checkpoint, stochastic rounding, and a rate that
// depends on evaluations.
TEST_F(Train, ResumesBitExactlyInLeanNumerics) {
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

TEST_F(Train, RefusesExistingRun) {
  ASSERT_EQ(train("run", {"--max-steps", "2"}).exit_code, 0);
  expect_refusal(train("run"), 2, {"--resume"});
}

TEST_F(Train, SkipsTruncatedCheckpoint) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("cut", {"--max-steps", "6"}).exit_code, 0);
  fs::resize_file(run("cut") / "checkpoints/step-6/optimizer.safetensors", 1000);
  const CommandResult resumed = train("cut", {"--resume", "--max-steps", "18"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_PRED2(contains, resumed.err, "step-6 cannot be used");
  EXPECT_EQ(weights("cut", 18), weights("whole", 18));
}

// Settings that affect the result are those of the run; a different value is refused.
TEST_F(Train, RefusesToResumeAsAnotherRun) {
  ASSERT_EQ(train("run", {"--max-steps", "2"}).exit_code, 0);
  const std::string before = content_of(run("run") / "config.yaml");
  folder_.write("vocab.json", R"({"<pad>": 0, "|": 1, "d": 2, "c": 3, "b": 4, "a": 5})");
  const std::string vocabulary = (folder_.path() / "vocab.json").string();
  for (const auto& [setting, difference] : std::vector<std::pair<std::string, std::string>>{
           {"model.width=64", "model.width was 32 and is 64"},
           {"model.heads=4", "model.heads was 2 and is 4"},
           {"model.preset=small", "model.preset was tiny and is small"},
           {"model.activation=relu", "model.activation was gelu and is relu"},
           {"model.attention_left=8", "model.attention_left was "},
           {"model.dropout=0.3", "model.dropout was "},
           {"model.features.num_mels=40", "model.features.num_mels was "},
           {"reduction=sum", "reduction was ctc_mean and is sum"},
           {"data.min_seconds=0.01", "data.min_seconds was 0 and is 0.01"},
           {"data.max_seconds=90", "data.max_seconds was 0 and is 90"},
           {"data.max_samples=20", "data.max_samples was 0 and is 20"},
           {"data.too_short=error", "data.too_short was skip and is error"},
           {"data.too_long=error", "data.too_long was skip and is error"},
           {"data.unknown_text=skip", "data.unknown_text was error and is skip"},
           {"data.empty_text=skip", "data.empty_text was keep and is skip"},
           {"data.too_large=skip", "data.too_large was error and is skip"},
           {"data.augment.speeds=[0.9, 1.1]", "data.augment.speeds was "},
           {"data.text.case=upper", "data.text.case was "},
           {"data.tokenizer=" + vocabulary, "data.tokenizer was "},
           {"init_from=elsewhere", "init_from was "},
           {"optimizer.schedule.rate=0.1", "optimizer.schedule.rate was 0.003 and is 0.1"},
           {"optimizer.schedule.kind=linear", "optimizer.schedule.kind was constant and is linear"},
           {"effective_batch=4", "effective_batch was 8 and is 4"},
           {"curriculum=sorted", "curriculum was shuffle and is sorted"},
           {"seed=7", "seed was 1 and is 7"}}) {
    expect_refusal(train("run", {"--resume", "--set", setting}), 2,
                   {"resuming a run: ", difference, "--init-from"});
  }
  expect_refusal(train("run", {"--resume", "--set", "seed=7", "--set", "reduction=sum"}), 2,
                 {"reduction was ctc_mean and is sum; seed was 1 and is 7"});
  EXPECT_EQ(content_of(run("run") / "config.yaml"), before);
  write_tiny_corpus(folder_.path(), "train", 50, 1);
  expect_refusal(train("run", {"--resume"}), 2, {"train.jsonl has changed"});
}

TEST_F(Train, ResumesWithItsOwnConfig) {
  const std::vector<std::string> special = {
      "--set", "model.dropout=0.2", "--set", "seed=5",
      "--set", "reduction=sum",     "--set", "data.max_samples=30",
      "--set", "checkpoint_every=3"};
  ASSERT_EQ(train("whole", special).exit_code, 0);
  std::vector<std::string> cut = special;
  cut.insert(cut.end(), {"--max-steps", "4"});
  ASSERT_EQ(train("parts", cut).exit_code, 0);
  // Nothing of it is named again, but the configuration that leaves it out.
  const CommandResult resumed = train("parts", {"--resume", "--set", "max_steps=0"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_PRED2(contains, resumed.err, "info: max_steps was 4 and is 0");
  // It names checkpoint_every: 2, which is another one, and may be.
  EXPECT_PRED2(contains, resumed.err, "info: checkpoint_every was 3 and is 2");
  EXPECT_EQ(weights("parts", 12), weights("whole", 12));
}

TEST_F(Train, ReportsChangedSettingsOnResume) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("run", {"--max-steps", "4"}).exit_code, 0);
  const CommandResult resumed =
      train("run", {"--resume", "--max-steps", "18", "--memory", "90MiB", "--set", "tier=block",
                    "--set", "data.loader_threads=2", "--set", "keep_checkpoints=5", "--set",
                    "evaluate_every=9", "--set", "data.broken=skip", "--set",
                    "checkpoint_seconds=5min", "--set", "optimizer.state=device"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  for (const char* part :
       {"memory was 100MiB and is 90MiB", "and is block", "keep_checkpoints was 3 and is 5",
        "evaluate_every was 0 and is 9", "data.broken was error and is skip",
        "max_steps was 4 and is 18", "the run is extended from 4 to 18 steps"})
    EXPECT_PRED2(contains, resumed.err, part);
  EXPECT_EQ(weights("run", 18), weights("whole", 18));
}

// The manifest is the same, but its audio files are not.
TEST_F(Train, RefusesChangedAudioOnResume) {
  ASSERT_EQ(train("run", {"--max-steps", "2"}).exit_code, 0);
  const fs::path features = folder_.path() / "train.f16";
  const std::string bytes = content_of(features);
  // A copy has another time, and is the same.
  fs::remove(features);
  folder_.write("train.f16", bytes);
  ASSERT_EQ(train("run", {"--resume", "--max-steps", "4"}).exit_code, 0);
  std::string changed = bytes;
  changed[changed.size() / 2] = static_cast<char>(changed[changed.size() / 2] ^ 1);
  folder_.write("train.f16", changed);
  expect_refusal(train("run", {"--resume", "--max-steps", "6"}), 2,
                 {"1 of 48 compared files have changed", "train.f16"});
  folder_.write("train.f16", bytes);
  ASSERT_EQ(train("run", {"--resume", "--max-steps", "6"}).exit_code, 0);
  // Elsewhere, and the same.
  fs::create_directories(folder_.path() / "moved");
  fs::rename(features, folder_.path() / "moved" / "train.f16");
  fs::rename(folder_.path() / "train.jsonl", folder_.path() / "moved" / "train.jsonl");
  const CommandResult moved = train("run", {"--resume", "--max-steps", "8", "--train",
                                            (folder_.path() / "moved" / "train.jsonl").string()});
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
}

// A run of 48 steps with linear decay to 0 is stopped and resumed for a few steps: its rates stay
// on the same line. If it is extended, it reports this.
TEST_F(Train, KeepsItsScheduleWhenResumedForAFewSteps) {
  const std::vector<std::string> linear = {"--set", "optimizer.schedule.kind=linear", "--set",
                                           "epochs=8"};
  const auto rates = [&](const std::string& out) {
    std::vector<double> all;
    for (const nlohmann::json& line : read_run_record(run(out) / "metrics.jsonl").records)
      if (line["kind"] == "step") all.push_back(line["rate"]);
    return all;
  };
  ASSERT_EQ(train("whole", linear).exit_code, 0);
  ASSERT_EQ(
      run_sotto_and_signal(words("run", linear), SIGTERM, [&] { return num_lines("run") > 10; }),
      0);
  const int64_t stopped = std::ssize(rates("run"));
  ASSERT_LT(stopped, 40);
  std::vector<std::string> few = linear;
  few.insert(few.end(), {"--resume", "--max-steps", std::to_string(stopped + 3)});
  const CommandResult resumed = train("run", few);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_PRED2(contains, resumed.err, "its schedule remains that of 48 steps");
  const std::vector<double> whole = rates("whole");
  const std::vector<double> parts = rates("run");
  ASSERT_EQ(std::ssize(parts), stopped + 3);
  EXPECT_TRUE(std::equal(parts.begin(), parts.end(), whole.begin()));
  // To its end, as if nothing had been.
  const auto go_on = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train", "--out", run("run").string(), "--resume"};
    all.insert(all.end(), more.begin(), more.end());
    return run_sotto(all);
  };
  const CommandResult rest = go_on({"--set", "max_steps=0"});
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_EQ(weights("run", 48), weights("whole", 48));
  // Beyond it: both by steps, and by epochs.
  const CommandResult longer = go_on({"--max-steps", "60"});
  ASSERT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_PRED2(contains, longer.err,
               "the run is extended from 48 to 60 steps: its schedule is "
               "stretched, and the rate of step 49 is 6.00e-04 instead of "
               "0.00e+00");
  EXPECT_EQ(std::ssize(rates("run")), 60);
  EXPECT_NEAR(rates("run")[48], 6e-4, 1e-9);
  const CommandResult epochs = go_on({"--set", "max_steps=0", "--set", "epochs=11"});
  ASSERT_EQ(epochs.exit_code, 0) << epochs.err;
  EXPECT_PRED2(contains, epochs.err, "the run is extended from 60 to 66 steps");
  EXPECT_EQ(std::ssize(rates("run")), 66);
}

TEST_F(Train, ReportsDataErrors) {
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

// The tokenizer and the text rules go from the configuration into the checkpoint, and from there
// into the evaluation.
TEST_F(Train, LearnsPiecesWithTextRules) {
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
  // The same pieces from another place are the same; other rules are not.
  const std::string copy = folder_.write("copy.model", content_of(model)).string();
  EXPECT_EQ(train("run", {"--set", "data.tokenizer=" + copy, "--resume"}).exit_code, 0);
  expect_refusal(train("run", {"--set", "data.text.case=lower", "--resume"}), 2,
                 {"data.text.case was upper and is lower"});
}

// More labels than frames: counted and named, and the run continues.
TEST_F(Train, ContinuesPastUnalignableUtterance) {
  std::ofstream(folder_.path() / "train.jsonl", std::ios::app)
      << R"({"feature_filepath": "train.f16", "frame_offset": 0, "num_frames": 8, "feature_dim": 8,)"
      << R"( "duration": 0.08, "text": "abcdabcdabcd"})" << '\n';
  const CommandResult result = train("run");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "train.jsonl:49: more labels than its frames");
}

TEST_F(Train, RefusesUnusableDevice) {
  expect_refusal(train("run", {"--device", "tpu"}), 2, {"'tpu'", "cpu, cuda or cuda:N"});
  expect_refusal(train("run", {"--pretend-device", "t4"}), 2, {"'t4'", "--device cuda"});
  expect_refusal(train("run", {"--set", "numerics=tf32"}), 2, {"tf32", "numerics: fp32"});
  expect_refusal(train("run", {"--set", "precision.remainder_bits=8"}), 2, {"remainder_bits: 8"});
  expect_refusal(train("run", {"--set", "optimizer.rate_factors=[nothing.=2]"}), 2, {"nothing.=2"});
}

// The step is repeated with the same limits, and gives the same bits.
TEST_F(Train, RecoversFromInjectedOutOfMemory) {
  ASSERT_EQ(train("undisturbed", {"--max-steps", "4"}).exit_code, 0);
  const CommandResult result = train("disturbed", {"--max-steps", "4", "--inject-oom", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["restarts"], 1);
  EXPECT_EQ(weights("disturbed", 4), weights("undisturbed", 4));
  expect_refusal(train("late", {"--max-steps", "4", "--inject-oom", "5"}), 2,
                 {"step 5", "a step from 1 to 4"});
}

}  // namespace
}  // namespace sotto::test
