// `sotto lab`, as a user meets it.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/run_command.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string lines_of_words(int first, int count) {
  const std::vector<std::string> words = {"banana", "cedar", "dilemma", "fog", "gull", "kayak"};
  std::string text;
  for (int i = first; i < first + count; ++i)
    text += words[static_cast<size_t>(i % 6)] + " " + words[static_cast<size_t>(i / 6 % 6)] + " " +
            words[static_cast<size_t>(i * 5 % 6)] + "\n";
  return text;
}

// Removes what differs between two runs of the same experiment: times, and the folder's name.
void forget_times(json& value) {
  if (value.is_object()) {
    for (const char* key : {"seconds_per_step", "seconds_per_step_error", "total_seconds", "speed",
                            "speed_up", "noise", "analysis", "settings"})
      value.erase(key);
  }
  if (value.is_structured()) {
    for (json& child : value) forget_times(child);
  }
}

class Lab : public testing::Test {
 protected:
  Lab() {
    folder_.write("corpus/train.txt", lines_of_words(0, 150));
    folder_.write("corpus/dev.txt", lines_of_words(7, 39));
    folder_.write(
        "corpus/vocab.json",
        R"({"<pad>": 0, "<unk>": 1, "|": 2, "a": 3, "b": 4, "c": 5, "d": 6, "e": 7, "f": 8, "g": 9,
                      "i": 10, "k": 11, "l": 12, "m": 13, "n": 14, "o": 15, "r": 16, "u": 17, "y": 18})");
  }

  std::string in(const std::string& name) const { return (folder_.path() / name).string(); }

  // The suite of techniques on a small network.
  std::vector<std::string> suite(const std::string& out,
                                 const std::vector<std::string>& more = {}) const {
    return on_small_network(lab_words({"run", "techniques"}, out, more));
  }
  static std::vector<std::string> on_small_network(std::vector<std::string> words) {
    for (const char* setting :
         {"model.layers=2", "model.width=32", "model.heads=2", "model.hidden=64"}) {
      words.emplace_back("--set");
      words.emplace_back(setting);
    }
    return words;
  }
  std::vector<std::string> lab_words(const std::vector<std::string>& command,
                                     const std::string& out,
                                     const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"lab"};
    words.insert(words.end(), command.begin(), command.end());
    for (const std::string& word :
         {std::string("--train"), in("corpus/train.txt"), std::string("--dev"),
          in("corpus/dev.txt"), std::string("--tokenizer"), in("corpus/vocab.json"),
          std::string("--memory"), std::string("6MiB"), std::string("--batch-size"),
          std::string("4"), std::string("--max-steps"), std::string("6"), std::string("--out"),
          in(out), std::string("--json")})
      words.push_back(word);
    for (const char* setting : {"data.row_tokens=64", "data.documents=line"}) {
      words.emplace_back("--set");
      words.emplace_back(setting);
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  json content(const std::string& path) const {
    return json::parse(content_of(folder_.path() / path));
  }
  void expect_refusal(const std::vector<std::string>& words, const std::string& part) const {
    const CommandResult result = run_sotto(words);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_PRED2(contains, result.err, part);
  }

  TempFolder folder_;
};

TEST_F(Lab, MeasuresWhatItPredicts) {
  const CommandResult result =
      run_sotto(suite("results", {"--only", "baseline", "bf16", "window_512"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json summary = json::parse(result.out);
  ASSERT_EQ(summary["experiments"].size(), 3u);
  EXPECT_EQ(summary["baseline"], "baseline");
  EXPECT_EQ(summary["noise"]["seeds"], 2);
  for (const json& row : summary["experiments"]) {
    EXPECT_EQ(row["status"], "done") << row.dump();
    EXPECT_EQ(row["batch_size"], 4);
    EXPECT_EQ(row["steps"], 6);
    const json& memory = row["memory"];
    // All rows are equally long: each step takes what the dry run of the largest says.
    for (const char* key : {"after_forward_bytes", "after_backward_bytes", "peak_bytes"}) {
      EXPECT_EQ(memory["max"][key], memory["predicted"][key]) << row["experiment"] << key;
      EXPECT_GT(memory["max"][key], 0);
    }
    EXPECT_LT(memory["max"]["after_backward_bytes"], memory["max"]["after_forward_bytes"]);
    EXPECT_LE(memory["max"]["after_forward_bytes"], memory["max"]["peak_bytes"]);
    const json& largest = memory["largest_batch"];
    EXPECT_EQ(largest["tried"], largest["predicted"]);
    EXPECT_GE(largest["tried"], 4);
    EXPECT_GT(row["validation_perplexity"], 1.0);
    EXPECT_GT(row["seconds_per_step"], 0.0);
  }
  const json& rows = summary["experiments"];
  EXPECT_LT(rows[1]["memory"]["max"]["peak_bytes"], rows[0]["memory"]["max"]["peak_bytes"]);
  EXPECT_PRED2(contains, rows[2]["note"], "no effect");
  // Plain attention and whole logits are those of the baseline alone.
  EXPECT_EQ(rows[0]["model"]["attention"], "plain");
  EXPECT_EQ(rows[0]["model"]["logits"], "whole");
  EXPECT_EQ(rows[2]["model"]["attention"], "tiled");
  for (const char* file :
       {"corpus_baseline_metrics.json", "corpus_baseline_memory.json",
        "corpus_baseline_seed2_metrics.json", "experiment_summary.json", "comparison_report.txt"})
    EXPECT_TRUE(fs::exists(folder_.path() / "results" / file)) << file;
  EXPECT_EQ(content("results/corpus_bf16_memory.json")["steps"].size(), 6u);
}

// Kills the suite in its second experiment, and again while it is continued.
TEST_F(Lab, KilledSuiteContinuesToTheSameFiles) {
  const std::vector<std::string> more = {"--only",  "baseline", "bf16",  "grad_checkpoint",
                                         "--seeds", "1",        "--set", "checkpoint_every=2"};
  ASSERT_EQ(run_sotto(suite("whole", more)).exit_code, 0);
  const auto second_has_checkpoint = [&] {
    return fs::exists(folder_.path() / "killed/runs/bf16/checkpoints/step-4");
  };
  EXPECT_EQ(run_sotto_and_signal(suite("killed", more), SIGKILL, second_has_checkpoint), -SIGKILL);
  EXPECT_TRUE(fs::exists(folder_.path() / "killed/corpus_baseline_metrics.json"));
  EXPECT_FALSE(fs::exists(folder_.path() / "killed/corpus_bf16_metrics.json"));
  const CommandResult continued = run_sotto(suite("killed", more));
  ASSERT_EQ(continued.exit_code, 0) << continued.err;
  EXPECT_PRED2(contains, continued.err, "(from before)");
  for (const char* file :
       {"corpus_baseline_metrics.json", "corpus_bf16_metrics.json", "corpus_bf16_memory.json",
        "corpus_grad_checkpoint_metrics.json", "experiment_summary.json"}) {
    json whole = content(std::string("whole/") + file);
    json again = content(std::string("killed/") + file);
    forget_times(whole);
    forget_times(again);
    EXPECT_EQ(whole, again) << file;
  }
}

TEST_F(Lab, InterruptedSuiteSavesAndEnds) {
  const std::vector<std::string> more = {"--only", "baseline", "--seeds",
                                         "1",      "--set",    "checkpoint_every=1"};
  const auto has_begun = [&] {
    return fs::exists(folder_.path() / "stopped/runs/baseline/checkpoints/step-1");
  };
  EXPECT_EQ(run_sotto_and_signal(suite("stopped", more), SIGINT, has_begun), 0);
  EXPECT_EQ(run_sotto(suite("stopped", more)).exit_code, 0);
  EXPECT_EQ(content("stopped/corpus_baseline_metrics.json")["steps"], 6);
}

TEST_F(Lab, OtherSettingsNeedAnotherFolder) {
  const std::vector<std::string> more = {"--only", "baseline", "--seeds", "1", "--no-find-batch"};
  ASSERT_EQ(run_sotto(suite("results", more)).exit_code, 0);
  std::vector<std::string> others = more;
  others.insert(others.end(), {"--set", "tier=block"});
  expect_refusal(suite("results", others), "an experiment baseline with other settings");
}

// Calls add to what is there, and other data is noticed.
TEST_F(Lab, LaterCallsAddToTheComparison) {
  const std::vector<std::string> more = {"--seeds", "1", "--no-find-batch"};
  const auto only = [&](const char* name) {
    std::vector<std::string> words = suite("results", more);
    words.insert(words.end(), {"--only", name});
    return words;
  };
  ASSERT_EQ(run_sotto(only("bf16")).exit_code, 0);
  const CommandResult second = run_sotto(only("baseline"));
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(json::parse(second.out)["experiments"].size(), 2u);
  EXPECT_EQ(content("results/experiment_summary.json")["experiments"].size(), 2u);
  folder_.write("corpus/train.txt", lines_of_words(1, 150));
  expect_refusal(only("flash_attn"), "results on other data");
}

// One that fails is a row with its reason, and the others go on.
TEST_F(Lab, ExperimentThatDoesNotFitIsARow) {
  folder_.write("mine.yaml",
                "name: mine\nwhole_batch: true\n"
                "settings: {model: {preset: decoder-lm, heads: 2}, numerics: fp32, tier: none}\n"
                "experiments:\n"
                "  - {name: huge, settings: {model: {width: 256, hidden: 4096}}}\n"
                "  - {name: small, settings: {model: {layers: 2, width: 32, hidden: 64}}}\n");
  const CommandResult result = run_sotto(
      lab_words({"run", in("mine.yaml")}, "results", {"--seeds", "1", "--no-find-batch"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json summary = json::parse(result.out);
  EXPECT_EQ(summary["experiments"][0]["status"], "does not fit") << result.err;
  EXPECT_PRED2(contains, summary["experiments"][0]["note"], "MiB");
  EXPECT_EQ(summary["experiments"][1]["status"], "done") << result.err;
  EXPECT_EQ(summary["baseline"], "small");
}

TEST_F(Lab, SingleRunsAreNamedByTheirFlags) {
  const CommandResult result =
      run_sotto(on_small_network(lab_words({"train"}, "single",
                                           {"--bf16", "--flash-attn", "--window-size", "16",
                                            "--no-memory-profiling", "--no-find-batch"})));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json row = content("single/corpus_bf16_flash_window16_metrics.json");
  EXPECT_EQ(row["model"]["attention_left"], 15);
  EXPECT_EQ(row["model"]["attention"], "tiled");
  EXPECT_FALSE(row["memory"].contains("max"));
  EXPECT_FALSE(fs::exists(folder_.path() / "single/corpus_bf16_flash_window16_memory.json"));
  const CommandResult named = run_sotto(on_small_network(lab_words(
      {"train"}, "single",
      {"--gradient-checkpointing", "--technique", "mine", "--no-find-batch", "--dataset", "set"})));
  ASSERT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(content("single/set_mine_metrics.json")["experiment"], "mine");
}

TEST_F(Lab, ComparesResultsThatAreThere) {
  ASSERT_EQ(
      run_sotto(suite("results", {"--only", "baseline", "bf16", "--no-find-batch"})).exit_code, 0);
  const CommandResult result = run_sotto({"lab", "compare", "--results-dir", in("results"),
                                          "--experiments", "bf16", "baseline", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["baseline"], "bf16");
  expect_refusal({"lab", "compare", "--results-dir", in("results"), "--experiments", "bf61"},
                 "Did you mean bf16?");
  expect_refusal({"lab", "compare", "--results-dir", in("corpus")}, "no files named");
  expect_refusal({"lab", "compare", "--results-dir", in("nowhere")}, "No such file");
}

TEST_F(Lab, SizesArePredictedAndMeasured) {
  const fs::path corpus = write_tiny_corpus(folder_.path(), "features", 40, 1);
  const CommandResult result =
      run_sotto({"lab", "run", "sizes", "--models", "tiny", "--budgets", "60MiB,1MiB", "--train",
                 corpus.string(), "--batch-size", "8", "--out", in("sizes"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json rows = json::parse(result.out)["experiments"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["experiment"], "tiny_60MiB");
  EXPECT_EQ(rows[0]["memory"]["max"]["peak_bytes"], rows[0]["memory"]["predicted"]["peak_bytes"]);
  EXPECT_GT(rows[0]["parameters"], 1000);
  EXPECT_GT(rows[0]["predicted_speed"], 0.0);
  EXPECT_GT(rows[0]["speed"], 0.0);
  EXPECT_EQ(rows[1]["status"], "does not fit");
  // Without data, and for a card that is elsewhere, there is a prediction alone.
  const CommandResult elsewhere =
      run_sotto({"lab", "run", "sizes", "--models", "tiny", "--budgets", "4GiB", "--device", "t4",
                 "--out", in("t4"), "--json"});
  ASSERT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  EXPECT_PRED2(contains, json::parse(elsewhere.out)["experiments"][0]["note"], "not measured");
}

// Micro-batches and the smallest budget, without a budget of the user.
class LabSizes : public Lab {
 protected:
  LabSizes() : corpus_(write_tiny_corpus(folder_.path(), "features", 40, 1)) {}

  std::vector<std::string> sizes(const std::string& out,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        "lab",   "run",   "sizes",        "--models", "tiny",      "--train", corpus_.string(),
        "--out", in(out), "--batch-size", "8",        "--dataset", "set"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // The first epoch of `sotto train` with these settings: five updates of 8 utterances.
  CommandResult train(const std::string& out, const std::vector<std::string>& settings) const {
    std::vector<std::string> words = {
        "train", "--model",     "tiny", "--train", corpus_.string(),   "--out",
        in(out), "--max-steps", "5",    "--set",   "effective_batch=8"};
    words.insert(words.end(), settings.begin(), settings.end());
    return run_sotto(words);
  }
  int64_t largest_peak(const std::string& out) const {
    int64_t most = 0;
    std::istringstream lines(content_of(folder_.path() / out / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const json record = json::parse(line);
      if (record.value("kind", "") == "step")
        most = std::max(most, record.at("peak_bytes").get<int64_t>());
    }
    return most;
  }

  fs::path corpus_;
};

TEST_F(LabSizes, MicroBatchRowIsWhatARunTakes) {
  const CommandResult result = run_sotto(sizes("sizes", {"--micro-batches", "4,1", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json rows = json::parse(result.out)["experiments"];
  ASSERT_EQ(rows.size(), 3u);
  for (const int row : {0, 1}) {
    const int64_t count = rows[row]["micro_batch"];
    EXPECT_EQ(rows[row]["experiment"], "tiny_micro_batch_" + std::to_string(count));
    const json& memory = rows[row]["memory"];
    EXPECT_EQ(memory["max"]["peak_bytes"], memory["predicted"]["peak_bytes"]) << count;
    EXPECT_GE(rows[row]["budget_bytes"], memory["predicted"]["peak_bytes"]);
    EXPECT_GT(rows[row]["speed"], 0.0);
    const std::string out = "run-" + std::to_string(count);
    const CommandResult run =
        train(out, {"--set", "tier=none", "--set", "numerics=fp32", "--set",
                    "adaptive_batching=false", "--set", "micro_batch=" + std::to_string(count),
                    "--memory", std::to_string(rows[row]["budget_bytes"].get<int64_t>()) + "B"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(largest_peak(out), memory["predicted"]["peak_bytes"]) << count;
  }
  EXPECT_GT(rows[0]["budget_bytes"], rows[1]["budget_bytes"]);
}

TEST_F(LabSizes, OneByteLessThanTheSmallestBudgetIsTooLittle) {
  const CommandResult result = run_sotto(sizes("sizes", {"--micro-batches", "1", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json row = json::parse(result.out)["experiments"][1];
  EXPECT_EQ(row["experiment"], "tiny_smallest_budget");
  EXPECT_EQ(row["has_smallest_budget"], true);
  EXPECT_EQ(row["memory"]["max"]["peak_bytes"], row["memory"]["predicted"]["peak_bytes"]);
  EXPECT_GT(row["predicted_speed"], 0.0);
  const int64_t bytes = row["budget_bytes"];
  const CommandResult run = train("run", {"--memory", std::to_string(bytes) + "B"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_LE(largest_peak("run"), bytes);
  const CommandResult less = train("less", {"--memory", std::to_string(bytes - 1) + "B"});
  EXPECT_EQ(less.exit_code, 2) << less.err;
  EXPECT_PRED2(contains, less.err, "planning a run inside its budget");
}

// A card that is elsewhere: a prediction alone, with what libraries take in the budget.
TEST_F(LabSizes, CardElsewhereIsPredicted) {
  const CommandResult result =
      run_sotto(sizes("t4", {"--micro-batches", "2", "1", "--device", "t4"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "Device: Tesla T4, 16 GB");
  const json rows = content("t4/experiment_summary.json")["experiments"];
  ASSERT_EQ(rows.size(), 3u);
  for (const json& row : rows) {
    EXPECT_PRED2(contains, row["note"], "not in this machine");
    EXPECT_FALSE(row["memory"].contains("max"));
    EXPECT_GT(row["budget_bytes"], row["memory"]["predicted"]["peak_bytes"]);
    EXPECT_GT(row["budget_bytes"], int64_t{768} << 20);
  }
  EXPECT_LE(rows[2]["budget_bytes"], rows[1]["budget_bytes"]);
}

// Killed after its first row, it keeps that row and adds the others.
TEST_F(LabSizes, KilledSuiteContinues) {
  const std::vector<std::string> words = sizes("killed", {"--micro-batches", "8,4,2,1", "--json"});
  const auto has_first = [&] {
    return fs::exists(folder_.path() / "killed/set_tiny_micro_batch_8_metrics.json");
  };
  EXPECT_EQ(run_sotto_and_signal(words, SIGKILL, has_first), -SIGKILL);
  EXPECT_FALSE(fs::exists(folder_.path() / "killed/set_tiny_smallest_budget_metrics.json"));
  const CommandResult continued = run_sotto(words);
  ASSERT_EQ(continued.exit_code, 0) << continued.err;
  EXPECT_PRED2(contains, continued.err, "(from before)");
  const json rows = json::parse(continued.out)["experiments"];
  ASSERT_EQ(rows.size(), 5u);
  for (const json& row : rows) EXPECT_EQ(row["status"], "done") << row.dump();
}

TEST_F(LabSizes, BadInputIsOneMessage) {
  expect_refusal(sizes("bad", {"--micro-batches", "0"}), "micro-batches");
  expect_refusal(sizes("bad", {"--micro-batches", "9"}), "a micro_batch of at most 8");
  expect_refusal(sizes("bad", {"--micro-batches", "2", "2"}), "two experiments named");
  expect_refusal(sizes("bad", {"--micro-batches", "2", "--set", "micro_batch=4"}),
                 "Change --micro-batches");
  expect_refusal(sizes("bad", {"--micro-batches", "2", "--set", "memory=1GiB"}),
                 "Name budgets with --budgets");
  expect_refusal(suite("bad", {"--micro-batches", "2"}), "--micro-batches");
  expect_refusal(sizes("bad", {"--pretend-device", "t4"}), "--pretend-device restricts a GPU");
  expect_refusal(sizes("bad", {"--pretend-device", "t4", "--device", "t4"}), "cpu, cuda or cuda:N");
  expect_refusal(suite("bad", {"--pretend-device", "t4"}), "--pretend-device restricts a GPU");
  EXPECT_FALSE(fs::exists(folder_.path() / "bad"));
}

TEST_F(Lab, LimitsAreFractionsOfTheStandardRun) {
  const fs::path train = write_tiny_corpus(folder_.path(), "train", 40, 1);
  const fs::path dev = write_tiny_corpus(folder_.path(), "dev", 8, 2);
  folder_.write("standard.json",
                R"({"format_version": 1, "program": "another 1.0", "model": "tiny", "device": "CPU",
                    "parameters": 1000, "effective_batch": 8, "steps": 5, "peak_bytes": 60000000,
                    "seconds_per_step": 0.5, "audio_seconds_per_second": 3.0, "wer": [0.5, 0.6]})");
  const std::vector<std::string> words = {"lab",
                                          "run",
                                          "limits",
                                          "--model",
                                          "tiny",
                                          "--train",
                                          train.string(),
                                          "--dev",
                                          dev.string(),
                                          "--standard",
                                          in("standard.json"),
                                          "--set",
                                          "numerics=fp32",
                                          "--seeds",
                                          "2",
                                          "--max-steps",
                                          "5",
                                          "--out",
                                          in("limits"),
                                          "--json"};
  expect_refusal(words, "its effective batch 8, and 32 here");
  std::vector<std::string> right = words;
  right.insert(right.end(), {"--batch-size", "8"});
  const CommandResult result = run_sotto(right);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json summary = json::parse(result.out);
  const json& rows = summary["experiments"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["experiment"], "standard");
  EXPECT_EQ(rows[0]["quality"]["seeds"], 2);
  EXPECT_NEAR(rows[0]["quality"]["mean"].get<double>(), 0.55, 1e-9);
  EXPECT_EQ(rows[1]["budget_bytes"], 34800000);
  EXPECT_EQ(rows[2]["budget_bytes"], 27000000);
  for (const int row : {1, 2}) {
    EXPECT_EQ(rows[row]["status"], "done") << rows[row].dump();
    EXPECT_LE(rows[row]["memory"]["max"]["peak_bytes"], rows[row]["budget_bytes"]);
    EXPECT_EQ(rows[row]["quality"]["seeds"], 2);
  }
  folder_.write("standard.json", "{}");
  expect_refusal(right, "format_version");
}

TEST_F(Lab, BadInputIsOneMessage) {
  expect_refusal({"lab", "run", "technique", "--train", in("corpus/train.txt")},
                 "Did you mean techniques?");
  expect_refusal(suite("bad", {"--only", "flash"}), "no experiment 'flash'");
  expect_refusal(suite("bad", {"--only", "bf16", "--skip", "bf16"}), "none left");
  expect_refusal(suite("bad", {"--batch-size", "0"}), "batch-size");
  expect_refusal(suite("bad", {"--models", "tiny"}), "--models");
  expect_refusal(suite("bad", {"--standard", "x.json"}), "--standard");
  expect_refusal(lab_words({"train"}, "bad", {"--window-size", "0"}), "window-size");
  expect_refusal(lab_words({"train"}, "bad", {"--technique", "../../x"}), "naming an experiment");
  expect_refusal(suite("bad", {"--dataset", "a/b"}), "naming the data");
  expect_refusal(suite("bad", {"--set", "micro_batch=2"}), "each step is one micro-batch");
  std::vector<std::string> lost = suite("bad");
  *std::ranges::find(lost, in("corpus/dev.txt")) = in("corpus/nowhere.txt");
  expect_refusal(lost, "nowhere.txt");
  folder_.write("mine/report.html", "<p>mine</p>");
  expect_refusal(suite("mine"), "other files, such as report.html");
  std::vector<std::string> large = suite("bad");
  *std::ranges::find(large, "4") = "4000";
  expect_refusal(large, "at least one batch of 4000");
  expect_refusal({"lab", "run", "techniques"}, "no training data was given");
  expect_refusal({"lab", "run", "sizes", "--memory", "1GiB"}, "--budgets");
  EXPECT_FALSE(fs::exists(folder_.path() / "bad"));
}

}  // namespace
}  // namespace sotto::test
