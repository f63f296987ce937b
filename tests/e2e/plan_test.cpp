// Plans as a user makes them, without a GPU for one, and what is tried before a run.
#include <gtest/gtest.h>

#include <chrono>
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

TEST_F(Plans, NeedNoGpu) {
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

TEST_F(Plans, NeverUseFeaturesTheCardLacks) {
  const nlohmann::json plan = this->plan({"--model", "wav2vec2-base", "--device", "t4"});
  EXPECT_EQ(plan["best"]["numerics"], "fp16");
  EXPECT_LE(plan["best"]["total_bytes"], plan["budget_bytes"]);
}

// Even at the speed of a CPU nothing is rounded to 0, the host does not have 16 TiB, and planning
// is quick.
TEST_F(Plans, ForACpuTakeSeconds) {
  const TempFolder cache;
  const auto start = std::chrono::steady_clock::now();
  const CommandResult result = run_sotto({"plan", "--model", "xls-r-300m", "--device", "cpu",
                                          "--memory", "10GiB", "--out", run("cpu").string()},
                                         {"XDG_CACHE_HOME=" + cache.path().string()});
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  // Others use the machine too.
  EXPECT_LT(taken.count(), 20.0);
  EXPECT_FALSE(contains(result.out, " 0 audio-s/s")) << result.out;
  EXPECT_FALSE(contains(result.out, " 0.0\n")) << result.out;
  const nlohmann::json plan =
      this->plan({"--config", (folder_.path() / "tiny.yaml").string(), "--device", "cpu"});
  EXPECT_TRUE(plan["host_budget_bytes"].is_null());
  EXPECT_LT(plan["best"]["host_bytes"], int64_t{1} << 40);
}

TEST_F(Plans, CanTargetAnotherHost) {
  const nlohmann::json plan =
      this->plan({"--model", "wav2vec2-base", "--device", "rtx3070", "--host-memory", "4000GiB"});
  EXPECT_EQ(plan["host_budget_bytes"], int64_t{4'000} << 30);
}

TEST_F(Plans, ComputeCostFromHourlyPrice) {
  const std::vector<std::string> words = {"--model", "wav2vec2-base", "--device", "l4"};
  const nlohmann::json free = plan(words);
  EXPECT_EQ(free["best"]["run_cost"], 0.0);
  std::vector<std::string> priced = words;
  priced.insert(priced.end(), {"--price", "3.6"});
  const nlohmann::json best = plan(priced)["best"];
  EXPECT_DOUBLE_EQ(best["run_cost"].get<double>(), best["run_seconds"].get<double>() / 1000.0);
}

TEST_F(Plans, ShowMemoryBreakdown) {
  const nlohmann::json plan = this->plan({"--model", "wav2vec2-base", "--device", "l4",
                                          "--components", "--timeline", "--estimator", "paper"});
  const nlohmann::json& components = plan["components"];
  ASSERT_EQ(components.size(), 3);
  // Of each parameter that trains 4 bytes a moment, or one and a scale.
  EXPECT_EQ(components["fp32"]["momentum"], components["fp32"]["variance"]);
  EXPECT_LT(4 * components["bf16-lean"]["momentum"].get<int64_t>(),
            components["fp32"]["momentum"].get<int64_t>() * 21 / 20);
  EXPECT_LT(components["bf16-exact"]["activations"], components["fp32"]["activations"]);
  EXPECT_GT(plan["timeline"].size(), 20);
  EXPECT_EQ(plan["timeline"].back()["phase"], "update");
  EXPECT_EQ(plan["paper"]["exact_bytes"], plan["best"]["arena_bytes"]);
  // More micro-batches than gradients of bf16 may be summed over.
  EXPECT_EQ(this->plan({"--model", "xls-r-1b", "--device", "rtx4070", "--memory", "8GiB",
                        "--components"})["components"]
                .size(),
            3);
  const CommandResult text = run_sotto({"plan", "--model", "wav2vec2-base", "--device", "l4",
                                        "--components", "--timeline", "--out", run("x").string()});
  for (const char* part : {"momentum", "variance", "memory over a step", "█", "update"})
    EXPECT_PRED2(contains, text.out, part);
}

TEST_F(Plans, RefusalsSuggestWhatWouldWork) {
  EXPECT_PRED2(contains, refusal({"--device", "rtx407", "--model", "wav2vec2-base"}),
               "Did you mean 'rtx4070'?");
  EXPECT_PRED2(contains, refusal({"--device", "h100", "--model", "wav2vec2-base"}),
               "Did you mean 'h100-80'?");
  for (const char* other : {"gtx1080", "rtx4080", "v100"})
    EXPECT_FALSE(contains(refusal({"--device", other, "--model", "wav2vec2-base"}), "Did you mean"))
        << other;
  const std::string small =
      refusal({"--model", "xls-r-1b", "--device", "rtx4070", "--memory", "2GiB"});
  EXPECT_PRED2(contains, small, "would do");
  EXPECT_PRED2(contains, small, "data.max_seconds");
  EXPECT_PRED2(contains,
               refusal({"--model", "wav2vec2-base", "--device", "rtx4070", "--memory", "80GiB"}),
               "--memory");
}

TEST_F(Plans, AreComparedSideBySide) {
  const CommandResult result =
      run_sotto({"plan", "--model", "wav2vec2-base", "--compare-device", "t4", "l4", "rtx4090"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"device", "t4", "l4", "rtx4090", "fp16", "bf16-exact"})
    EXPECT_PRED2(contains, result.out, part);
  const CommandResult memories = run_sotto({"plan", "--model", "xls-r-1b", "--device", "h200",
                                            "--compare-memory", "2GiB", "8GiB", "40GiB"});
  ASSERT_EQ(memories.exit_code, 0) << memories.err;
  EXPECT_PRED2(contains, memories.out, "cannot run");
  EXPECT_PRED2(contains, memories.out, "would do");
  const CommandResult models = run_sotto({"plan", "--device", "t4", "--price", "0.35", "--compare",
                                          "wav2vec2-base", "wav2vec2-large-lv60"});
  ASSERT_EQ(models.exit_code, 0) << models.err;
  for (const char* part : {"model", "wav2vec2-base", "wav2vec2-large-lv60", "cost"})
    EXPECT_PRED2(contains, models.out, part);
}

// An unknown name is an error, not a row that says "cannot run".
TEST_F(Plans, ComparisonsRefuseUnknownNames) {
  const std::vector<std::string> base = {"--model", "wav2vec2-base"};
  EXPECT_PRED2(contains, refusal({"--model", "wav2vec2-base", "--compare-device", "t4", "rtx409"}),
               "Did you mean");
  EXPECT_PRED2(contains, refusal({"--device", "t4", "--compare", "wav2vec2-base", "wav2vec3"}),
               "wav2vec3");
  EXPECT_PRED2(contains,
               refusal({"--model", "wav2vec2-base", "--device", "t4", "--compare-memory", "8"}),
               "unit");
}

TEST_F(Plans, RefuseOptionsWithoutEffect) {
  const std::vector<std::string> base = {"--model", "wav2vec2-base", "--device", "l4"};
  const auto expect_refused = [&](const std::vector<std::string>& more, const char* part) {
    std::vector<std::string> words = base;
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_PRED2(contains, refusal(words), part);
  };
  expect_refused({"--for", "transformers", "--price", "1"}, "--price");
  expect_refused({"--for", "transformers", "--format", "json"}, "--format");
  expect_refused({"--compare-device", "t4"}, "--device");
  EXPECT_PRED2(
      contains,
      refusal({"--config", (folder_.path() / "tiny.yaml").string(), "--host-memory", "1GiB"}),
      "on the CPU");
}

// On a machine with this card, the device is called cuda.
TEST_F(Plans, ForAnotherCardUseCudaThere) {
  plan({"--model", "wav2vec2-base", "--device", "rtx3070"});
  const std::string yaml = content_of(run("plan") / "plan.yaml");
  EXPECT_PRED2(contains, yaml, "\ndevice: cuda\n");
  EXPECT_PRED2(contains, yaml, "planned for GeForce RTX 3070");
  const CommandResult result =
      run_sotto({"train", "--config", (folder_.path() / "tiny.yaml").string(), "--device",
                 "rtx3070", "--out", run("x").string()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_PRED2(contains, result.err, "--pretend-device rtx3070");
}

TEST_F(Plans, CountOnlyTheUpdatesOfTheRun) {
  const std::vector<std::string> words = {"--model", "wav2vec2-base", "--device", "l4"};
  const double whole = plan(words)["best"]["run_seconds"];
  std::vector<std::string> limited = words;
  limited.insert(limited.end(), {"--set", "max_steps=89"});
  const nlohmann::json plan = this->plan(limited);
  // Of ten epochs of 892 updates.
  EXPECT_NEAR(plan["best"]["run_seconds"].get<double>(), 0.01 * whole, 0.0005 * whole);
  double kernels = 0.0;
  for (const auto& [name, seconds] : plan["best"]["kernel_seconds"].items())
    kernels += seconds.get<double>();
  EXPECT_GT(kernels, 0.5 * plan["best"]["step_seconds"].get<double>());
}

TEST_F(Plans, NameInvalidModelFile) {
  folder_.write("model.bin", "no network");
  EXPECT_PRED2(contains, refusal({"--model", (folder_.path() / "model.bin").string()}),
               "model.bin");
}

TEST_F(Plans, WriteTrainingArguments) {
  const CommandResult result = run_sotto({"plan", "--model", "wav2vec2-base", "--device", "rtx4090",
                                          "--for", "transformers", "--out", run("hf").string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "transformers would take, estimated");
  const nlohmann::json written =
      nlohmann::json::parse(content_of(run("hf") / "training_arguments.json"));
  EXPECT_EQ(written["per_device_train_batch_size"].get<int64_t>() *
                written["gradient_accumulation_steps"].get<int64_t>(),
            32);
}

// A plan is a configuration: training with it gives the same run as planning within train.
TEST_F(Plans, TrainTheSameRun) {
  ASSERT_EQ(train("itself").exit_code, 0);
  EXPECT_TRUE(fs::exists(run("itself") / "plan.yaml"));
  const CommandResult planned =
      run_sotto({"train", "--plan", (run("itself") / "plan.yaml").string(), "--out",
                 run("planned").string()});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_EQ(weights("planned", 18), weights("itself", 18));
}

TEST_F(Plans, CanBePrintedAsJson) {
  const std::string base = folder_.path().string() + "/";
  ASSERT_EQ(run_sotto({"plan", "--config", base + "tiny.yaml", "--format", "json", "--out",
                       base + "json"})
                .exit_code,
            0);
  const nlohmann::json written = nlohmann::json::parse(content_of(run("json") / "plan.json"));
  EXPECT_EQ(written["effective_batch"], "8");
  ASSERT_EQ(train("itself").exit_code, 0);
  const CommandResult planned =
      run_sotto({"train", "--plan", base + "json/plan.json", "--out", run("planned").string()});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_EQ(weights("planned", 18), weights("itself", 18));
}

TEST_F(Plans, ReportEvaluationMicroBatch) {
  const nlohmann::json plan = this->plan({"--config", (folder_.path() / "tiny.yaml").string()});
  const auto& reasons = plan["reasons"];
  const auto found = std::ranges::find_if(
      reasons, [](const nlohmann::json& reason) { return reason["key"] == "evaluation"; });
  ASSERT_NE(found, reasons.end());
  EXPECT_PRED2(contains, (*found)["why"].get<std::string>(), "of 100 MiB");
}

// Edited by hand, and predicted again.
TEST_F(Plans, HonourEdits) {
  const std::string base = folder_.path().string() + "/";
  plan({"--config", base + "tiny.yaml"});
  std::string yaml = content_of(run("plan") / "plan.yaml");
  const size_t at = yaml.find("\ntier: none");
  ASSERT_NE(at, std::string::npos);
  yaml.replace(at, 11, "\ntier: block");
  folder_.write("edited.yaml", yaml);
  const nlohmann::json edited = plan({"--config", base + "edited.yaml"});
  EXPECT_EQ(edited["best"]["tier"], "block");
  const CommandResult trained = run_sotto(
      {"train", "--plan", base + "edited.yaml", "--out", run("edited").string(), "--json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_PRED2(contains, content_of(run("edited") / "config.yaml"), "\ntier: block");
}

// If a plan no longer fits, the refusal gives the same advice as without a plan.
TEST_F(Plans, SuggestAlternativesIfTheyNoLongerFit) {
  const std::string base = folder_.path().string() + "/";
  plan({"--config", base + "tiny.yaml", "--set", "model.width=256", "--set", "model.hidden=1024"});
  const CommandResult result = run_sotto({"train", "--plan", base + "plan/plan.yaml", "--memory",
                                          "8MiB", "--out", run("small").string()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_PRED2(contains, result.err, "What to try, cheapest first");
  EXPECT_PRED2(contains, result.err, "--set numerics=bf16-lean (");
  EXPECT_PRED2(contains, result.err, "would do");
}

TEST_F(Plans, AreAuditedBeforeEachEpoch) {
  const CommandResult result =
      run_sotto({"train", "--config", (folder_.path() / "tiny.yaml").string(), "--out",
                 run("audited").string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "epoch 1: 6 steps, largest peak ");
  EXPECT_PRED2(contains, result.err, " of 100 MiB at step ");
  EXPECT_PRED2(contains, result.err, "epoch 3: 6 steps");
}

TEST_F(Plans, CanBeRehearsed) {
  std::vector<std::string> words = this->words("rehearsed", {"--steps", "4"});
  words[0] = "rehearse";
  const auto out = std::ranges::find(words, "--out");
  words.erase(out, out + 2);
  const CommandResult result = run_sotto(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json rehearsal = nlohmann::json::parse(result.out);
  ASSERT_EQ(rehearsal["steps"].size(), 4);
  int64_t before = std::numeric_limits<int64_t>::max();
  for (const nlohmann::json& step : rehearsal["steps"]) {
    EXPECT_EQ(step["measured_peak_bytes"], step["predicted_peak_bytes"]);
    // The worst first.
    EXPECT_LE(step["predicted_peak_bytes"].get<int64_t>(), before);
    before = step["predicted_peak_bytes"];
  }
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
