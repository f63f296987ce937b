// A family that no file of the program knows, in a program that is linked with a list of its own:
// it trains, plans, resumes and is evaluated by the commands as they are.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/core/files/run_record.h"
#include "sotto/data/batch/example_list.h"
#include "sotto/plan/planner.h"
#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

class ToyFamily : public TrainRuns {
 protected:
  ToyFamily() {
    const std::string base = folder_.path().string();
    folder_.write("toy.yaml", "memory: 100MiB\ndata: {train: " + base +
                                  "/train.jsonl, dev: " + base +
                                  "/dev.jsonl}\n"
                                  "model: {preset: toy}\n"
                                  "optimizer: {schedule: {kind: constant, rate: 0.003}}\n"
                                  "effective_batch: 8\ncheckpoint_every: 2\n");
  }
  CommandResult train_toy(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"train", "--config", path("toy.yaml"),
                                    "--out", path(out),  "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run_sotto(all);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
};

TEST_F(ToyFamily, LearnsAndIsEvaluated) {
  const CommandResult result =
      train_toy("run", {"--set", "epochs=90", "--set", "checkpoint_every=0"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json summary = nlohmann::json::parse(result.out);
  EXPECT_PRED2(contains, result.err, "equal to the byte");
  // Both terms are there, and their weighted sum is the loss.
  std::vector<double> losses;
  for (const nlohmann::json& line : read_run_record(run("run") / "metrics.jsonl").records) {
    if (line["kind"] != "step") continue;
    losses.push_back(line["loss"]);
    const double sum =
        0.3 * line["losses"]["ctc"].get<double>() + 0.7 * line["losses"]["attention"].get<double>();
    EXPECT_NEAR(line["loss"].get<double>(), sum, 1e-6 * std::abs(sum));
  }
  const CommandResult eval =
      run_sotto({"eval", "--model", path("run"), "--data", path("dev.jsonl"), "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  const nlohmann::json evaluated = nlohmann::json::parse(eval.out);
  EXPECT_EQ(evaluated["wer"]["rate"], summary["best_wer"]);
  // One that says nothing has an error rate of 1.
  EXPECT_LT(evaluated["cer"]["rate"], 0.6);
  EXPECT_LT(losses.back(), 0.2 * losses.front());
}

TEST_F(ToyFamily, ResumesBitExactly) {
  ASSERT_EQ(train_toy("whole", {"--max-steps", "8"}).exit_code, 0);
  ASSERT_EQ(train_toy("half", {"--max-steps", "8", "--set", "early_stopping=0"}).exit_code, 0);
  std::filesystem::remove_all(run("half") / "checkpoints/step-8");
  std::filesystem::remove_all(run("half") / "checkpoints/step-6");
  const CommandResult resumed = train_toy("half", {"--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(weights("half", 8), weights("whole", 8));
}

TEST_F(ToyFamily, GivesTheSameResultInTheSmallestBudget) {
  ASSERT_EQ(train_toy("wide", {"--max-steps", "4"}).exit_code, 0);
  // The refusal of no memory at all names the least that would do.
  const CommandResult refused = train_toy("none", {"--max-steps", "4", "--memory", "64KiB"});
  ASSERT_NE(refused.exit_code, 0);
  const size_t found = refused.err.find("--memory ");
  ASSERT_NE(found, std::string::npos) << refused.err;
  const std::string after = refused.err.substr(found + 9);
  const std::string least = after.substr(0, after.find(' '));
  const CommandResult narrow = train_toy("narrow", {"--max-steps", "4", "--memory", least});
  ASSERT_EQ(narrow.exit_code, 0) << least << ": " << narrow.err;
  const auto losses = [&](const std::string& name) {
    std::vector<double> all;
    for (const nlohmann::json& line : read_run_record(run(name) / "metrics.jsonl").records)
      if (line["kind"] == "step") all.push_back(line["loss"]);
    return all;
  };
  const std::vector<double> of_wide = losses("wide"), of_narrow = losses("narrow");
  ASSERT_EQ(of_wide.size(), 4u);
  for (size_t i = 0; i < of_wide.size(); ++i)
    EXPECT_NEAR(of_narrow.at(i), of_wide[i], 1e-4 * of_wide[i]) << i;
}

TEST_F(ToyFamily, IsPlannedForAGpu) {
  const CommandResult plan = run_sotto(
      {"plan", "--config", path("toy.yaml"), "--device", "t4", "--memory", "1GiB", "--json"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_GT(nlohmann::json::parse(plan.out)["best"]["speed"], 0.0) << plan.out;
}

// Both stacks recompute what their tiers discard; a run takes exactly the planned memory.
TEST_F(ToyFamily, GivesTheSameResultAtEveryTier) {
  std::string expected;
  for (const char* tier : {"none", "norms", "ffn", "qkv", "block", "3 block, norms"}) {
    const CommandResult result =
        train_toy(tier, {"--max-steps", "2", "--set", std::string("tier=") + tier});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_PRED2(contains, result.err, "equal to the byte");
    if (expected.empty()) expected = weights(tier, 2);
    EXPECT_EQ(weights(tier, 2), expected) << tier;
  }
}

// Attention alone, both, and CTC alone: a beam finds something in each.
TEST_F(ToyFamily, IsSearchedInEveryWay) {
  ASSERT_EQ(train_toy("run", {"--max-steps", "1"}).exit_code, 0);
  for (const char* weight : {"0", "0.3", "1"}) {
    const CommandResult eval =
        run_sotto({"eval", "--model", path("run"), "--data", path("dev.jsonl"), "--beam", "4",
                   "--ctc-weight", weight, "--json"});
    ASSERT_EQ(eval.exit_code, 0) << eval.err;
    EXPECT_GT(nlohmann::json::parse(eval.out)["utterances"], 0);
  }
  const CommandResult wrong = train_toy("wrong", {"--set", "decode.lm=none.arpa"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_PRED2(contains, wrong.err, "decode.lm with decode.beam 1");
}

TEST_F(ToyFamily, ReadsItsOwnSettings) {
  const CommandResult wrong = train_toy("run", {"--set", "model.ctc_weight=2"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_PRED2(contains, wrong.err, "model.ctc_weight");
  const CommandResult foreign = train_toy("run", {"--set", "model.hidden=64"});
  EXPECT_EQ(foreign.exit_code, 2);
}

// A run of the toy with long utterances and short texts, so that its stacks differ much.
plan::PlanRequest unlike_stacks() {
  train::RunConfig config;
  config.model = models::ModelOptions::of_preset("toy");
  read_group(load_overrides({"model.layers=4", "model.decoder_layers=6", "model.width=128",
                             "effective_batch=16", "numerics=bf16-exact"}),
             as_group(config));
  plan::OpenChoices open = plan::OpenChoices::none();
  open.tier = open.max_frames = true;
  kernels::Rates rates{.bytes_per_s = 1e11, .link_bytes_per_s = 1e10, .launch_seconds = 1e-6};
  rates.flops_per_s.fill(8e11);
  rates.seconds_per_call.fill(1e-6);
  return {.config = config,
          .open = open,
          .shape = {.vocabulary = 500, .blank = 0, .feature_dim = 80},
          .target = {.processor = device::Processor::kCuda, .capability = 86, .num_sms = 46},
          .budget = {.bytes = int64_t{1} << 30},
          .rates = [rates](train::Compute) { return rates; }};
}

// The planner tries one sequence of tiers over all layers. It is compared with every pair of tiers
// for the two stacks.
TEST(UnlikeStacks, OneTierSequenceIsAsGoodAsAnyPair) {
  std::vector<data::Example> examples;
  std::vector<float> lengths;
  for (int64_t i = 0; i < 64; ++i) {
    examples.push_back(data::make_dry_example(600 + 20 * i, 80, 20 + i / 2));
    lengths.push_back(static_cast<float>(6.0 + 0.2 * static_cast<double>(i)));
  }
  const data::ExampleList source(std::move(examples), std::move(lengths));
  const plan::PlanRequest request = unlike_stacks();
  const int64_t encoder_layers = 6;  // blocks, front end, CTC head
  const auto best_in = [&](const plan::PlanRequest& of, int64_t bytes) -> double {
    plan::PlanRequest in_budget = of;
    in_budget.budget.bytes = bytes;
    try {
      return plan::Planner(in_budget, source).plan().best.speed();
    } catch (const ConfigError&) {
      return 0.0;
    }
  };
  int64_t num_compared = 0;
  for (const int64_t mebibytes : {34, 36, 40, 44, 60}) {
    const int64_t bytes = mebibytes << 20;
    const double by_row = best_in(request, bytes);
    double best_pair = 0.0;
    std::string which;
    for (const auto& [of_encoder, encoder_tier] : nn::kTiers) {
      for (const auto& [of_decoder, decoder_tier] : nn::kTiers) {
        plan::PlanRequest fixed = request;
        fixed.open.tier = false;
        fixed.config.tier =
            nn::LayerTiers({{.num_layers = encoder_layers, .tier = encoder_tier}}, decoder_tier);
        const double speed = best_in(fixed, bytes);
        if (speed <= best_pair) continue;
        best_pair = speed;
        which = fixed.config.tier.to_string();
      }
    }
    num_compared += by_row > 0.0 ? 1 : 0;
    EXPECT_GE(by_row, 0.97 * best_pair) << mebibytes << " MiB: " << which;
  }
  EXPECT_GE(num_compared, 3);
}

}  // namespace
}  // namespace sotto::test
