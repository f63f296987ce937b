// Stages in the configuration: their sizes, lengths and schedules, and what is refused.
#include "sotto/train/step/stage_options.h"

#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/train/step/config_aliases.h"
#include "sotto/train/step/stages.h"
#include "support/thrown.h"

namespace sotto::train {
namespace {

using test::contains;
using test::message_of;

RunConfig read(const std::string& text) {
  ConfigNode tree = parse_yaml(text, "a.yaml");
  resolve_aliases(tree);
  return read_options<RunConfig>(tree);
}

std::string refusal(const std::string& text) {
  return message_of<ConfigError>([&] { read(text); });
}

std::string idle(const std::string& text) {
  return message_of<ConfigError>([&] { check_stage_effects(read(text)); });
}

TEST(StageSize, HasOneTextForEachValue) {
  for (const char* text : {"1", "999", "1k", "100k", "500k", "1M", "250M", "all", "25%", "12.5%",
                           "100%", "0.01%", "1001"})
    EXPECT_EQ(StageSize::parse(text).to_string(), text);
  EXPECT_EQ(StageSize::parse("1.5M"), StageSize::parse("1500k"));
  EXPECT_EQ(StageSize::parse("1.1M").count, 1'100'000);
  EXPECT_EQ(StageSize::parse("100K"), StageSize::parse("100000"));
}

TEST(StageSize, RefusesEverythingElse) {
  for (const char* text : {"",      "0",
                           "-5",    "0.25",
                           "1.5",   "0.0001k",
                           "100 k", "k",
                           "100kk", "1m",
                           "5G",    "0%",
                           "101%",  "-1%",
                           "%",     "nan",
                           "inf%",  "1e3",
                           "All",   "5000M",
                           "0x10",  "99999999999999999999"})
    EXPECT_THROW(StageSize::parse(text), ConfigError) << text;
}

TEST(StageSize, SharesAreRounded) {
  EXPECT_EQ(StageSize::parse("25%").of(48), 12);
  EXPECT_EQ(StageSize::parse("25%").of(50), 13);
  EXPECT_EQ(StageSize::parse("1%").of(10), 1);
  EXPECT_EQ(StageSize::parse("all").of(7), 7);
  EXPECT_EQ(StageSize::parse("9").of(7), 9);
}

TEST(StageOptions, TakeTheScheduleOfTheRunExceptWhatTheySet) {
  const RunConfig config = read(
      "stages:\n"
      "  - {samples: 100k, epochs: 4, schedule: {rate: 0.25, warmup_steps: 7}}\n"
      "  - {samples: all, steps: 9}\n"
      "optimizer: {schedule: {kind: cosine, rate: 0.5, warmup_steps: 3}}\n");
  ASSERT_EQ(config.stages.size(), 2u);
  EXPECT_EQ(config.stages[0].samples.count, 100'000);
  EXPECT_EQ(config.stages[0].epochs, 4);
  EXPECT_EQ(config.stages[0].schedule.kind, optim::ScheduleKind::kCosine);
  EXPECT_EQ(config.stages[0].schedule.rate, 0.25);
  EXPECT_EQ(config.stages[0].schedule.warmup_steps, 7);
  EXPECT_EQ(config.stages[1].steps, 9);
  EXPECT_EQ(config.stages[1].schedule.rate, 0.5);
  EXPECT_EQ(config.stages[1].schedule.warmup_steps, 3);
  const std::string yaml = format_yaml(write_options(config));
  const auto again = read_options<RunConfig>(parse_yaml(yaml, "b.yaml"));
  EXPECT_EQ(format_yaml(write_options(again)), yaml);
  EXPECT_NO_THROW(check_stage_effects(again));
  EXPECT_EQ(describe(config.stages), "100k for 4 epochs, all for 9 steps");
}

// One form of warm-up replaces the other, and another kind has no use for some settings.
TEST(StageOptions, ReplaceSettingsThatTheirScheduleExcludes) {
  const RunConfig config = read(
      "optimizer: {schedule: {kind: tri_stage, warmup_share: 0.1, hold_share: 0.4, final_ratio: "
      "0.05}}\n"
      "stages:\n"
      "  - {epochs: 1, schedule: {warmup_steps: 5}}\n"
      "  - {epochs: 1, schedule: {kind: linear}}\n"
      "  - {epochs: 1, schedule: {kind: constant}}\n"
      "  - {epochs: 1}\n");
  EXPECT_EQ(config.stages[0].schedule.warmup_steps, 5);
  EXPECT_EQ(config.stages[0].schedule.warmup_share, 0.0);
  EXPECT_EQ(config.stages[0].schedule.hold_share, 0.4);
  EXPECT_EQ(config.stages[1].schedule.hold_share, 0.0);
  EXPECT_EQ(config.stages[1].schedule.final_ratio, 0.05);
  EXPECT_EQ(config.stages[1].schedule.warmup_share, 0.1);
  EXPECT_EQ(config.stages[2].schedule.final_ratio, 0.0);
  EXPECT_EQ(config.stages[3].schedule.warmup_share, 0.1);
  EXPECT_NO_THROW(check_effects(config));
  EXPECT_NO_THROW(check_stage_effects(config));
  const std::string yaml = format_yaml(write_options(config));
  EXPECT_EQ(format_yaml(write_options(read_options<RunConfig>(parse_yaml(yaml, "b.yaml")))), yaml);
  const RunConfig share = read(
      "optimizer: {schedule: {kind: plateau, warmup_steps: 9, plateau_factor: 0.25}}\n"
      "stages: [{epochs: 1, schedule: {warmup_share: 0.2, kind: linear}}, {epochs: 1}]\n");
  EXPECT_EQ(share.stages[0].schedule.warmup_steps, 0);
  EXPECT_EQ(share.stages[0].schedule.warmup_share, 0.2);
  EXPECT_EQ(share.stages[0].schedule.plateau_factor, 0.5);
  EXPECT_EQ(share.stages[1].schedule.plateau_factor, 0.25);
}

TEST(StageOptions, AreNotWrittenWithoutStages) {
  EXPECT_FALSE(contains(format_yaml(write_options(RunConfig())), "stages"));
}

TEST(StageOptions, KnowTheKeysOfOtherTools) {
  const RunConfig config = read(
      "stages: [{max_samples: 5, num_train_epochs: 2, learning_rate: 0.5, warmup_ratio: 0.1}, "
      "{samples: all, max_steps: 3, warmup_steps: 4}]");
  EXPECT_EQ(config.stages[0].samples.count, 5);
  EXPECT_EQ(config.stages[0].epochs, 2);
  EXPECT_EQ(config.stages[0].schedule.rate, 0.5);
  EXPECT_EQ(config.stages[0].schedule.warmup_share, 0.1);
  EXPECT_EQ(config.stages[1].steps, 3);
  EXPECT_EQ(config.stages[1].schedule.warmup_steps, 4);
  EXPECT_PRED2(contains, refusal("stages: [{epochs: 2, num_train_epochs: 2}]"),
               "line 1, column 22: num_train_epochs and epochs. Expected one of them");
}

TEST(StageOptions, ErrorsHaveLineAndColumn) {
  EXPECT_PRED2(
      contains, refusal("stages:\n  - {samples: 0.25, epochs: 1}\n"),
      "reading a.yaml: line 2, column 15: 'samples' is '0.25'. Expected a number of samples "
      "such as 5000, 100k or 1.5M, a share of the data such as 25%, or all.");
  EXPECT_PRED2(contains, refusal("stages:\n  - {samples: all}\n"),
               "line 2, column 5: setting up a stage: neither epochs nor steps.");
  EXPECT_PRED2(contains,
               refusal("stages:\n  - {samples: all, epochs: 1}\n  - {epochs: 1, steps: 2}\n"),
               "line 3, column 5: setting up a stage: epochs: 1 and steps: 2.");
  EXPECT_PRED2(contains, refusal("stages:\n  - {sampels: all, epochs: 1}\n"),
               "line 2, column 6: unknown key 'sampels' in 'stages'. Did you mean 'samples'?");
  EXPECT_PRED2(contains, refusal("stages: [25%, all]\n"),
               "line 1, column 10: an item of 'stages' is '25%'.");
  EXPECT_PRED2(
      contains,
      refusal("stages:\n  - {epochs: 1, schedule: {warmup_steps: 3, warmup_share: 0.1}}\n"),
      "line 2, column 27: setting up the schedule");
}

TEST(StageOptions, RefuseStagesThatShrink) {
  EXPECT_PRED2(contains,
               refusal("stages: [{samples: 500k, epochs: 1}, {samples: 100k, epochs: 1}]"),
               "stage 2 with 100k, after stage 1 with 500k. Expected stages that do not shrink.");
  EXPECT_PRED2(contains, refusal("stages: [{epochs: 1}, {epochs: 1}, {samples: 99%, epochs: 1}]"),
               "stage 3 with 99%, after stage 2 with all.");
  EXPECT_NO_THROW(read("stages: [{samples: 25%, epochs: 1}, {samples: 25%, epochs: 1}]"));
  // Whether these shrink depends on the data.
  const RunConfig mixed = read("stages: [{samples: 50%, epochs: 1}, {samples: 20, epochs: 1}]");
  EXPECT_EQ(stage_sizes(mixed.stages, 40), (std::vector<int64_t>{20, 20}));
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { stage_sizes(mixed.stages, 48); }),
               "stage 2 with 20 samples, after stage 1 with 24.");
}

TEST(StageOptions, RefuseStagesLargerThanTheData) {
  const RunConfig config = read("stages: [{samples: 10, epochs: 1}, {samples: 100k, epochs: 1}]");
  EXPECT_PRED2(
      contains, message_of<ConfigError>([&] { stage_sizes(config.stages, 48); }),
      "stage 2 with 100000 samples, and training data with 48. Expected at most 48 samples. "
      "Write 'samples: all'");
}

TEST(StageOptions, RefuseSettingsThatHaveNoEffect) {
  const std::string stages = "stages: [{samples: all, epochs: 1}]\n";
  EXPECT_PRED2(contains, idle(stages + "epochs: 3\n"),
               "epochs: 3 beside stages, which has no effect");
  EXPECT_PRED2(contains, idle(stages + "max_steps: 3\n"), "max_steps: 3 beside stages");
  const std::string with_rates =
      "stages: [{epochs: 1, schedule: {rate: 0.5}}, {epochs: 1, schedule: {rate: 0.25}}]\n";
  EXPECT_NO_THROW(check_stage_effects(read(with_rates)));
  EXPECT_PRED2(contains, idle(with_rates + "optimizer: {schedule: {rate: 0.125}}\n"),
               "optimizer.schedule.rate: 0.125 beside stages, which has no effect");
  EXPECT_NO_THROW(
      check_stage_effects(read(with_rates + "optimizer: {schedule: {warmup_steps: 5}}\n")));
  EXPECT_PRED2(contains, message_of<ConfigError>([] {
                 check_effects(
                     read("stages: [{epochs: 1, schedule: {kind: constant, final_ratio: "
                          "0.5}}]\n"));
               }),
               "final_ratio with kind: constant in the stage of all");
}

TEST(Stages, CountTheStepsOfTheirOwnSamples) {
  RunConfig config = read(
      "effective_batch: 8\n"
      "stages: [{samples: 10, epochs: 3}, {samples: 50%, steps: 7}, {epochs: 2}]\n");
  const std::vector<float> lengths(48, 2.0f);
  const std::vector<Stage> stages = stages_of(config, lengths);
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[0].steps_per_epoch, 2);
  EXPECT_EQ(stages[0].num_steps, 6);
  EXPECT_EQ(stages[0].length, 60.0);
  EXPECT_EQ(stages[1].num_samples, 24);
  EXPECT_EQ(stages[1].num_steps, 7);
  EXPECT_EQ(stages[1].length, 48.0 * 7 / 3);
  EXPECT_EQ(stages[2].num_steps, 12);
  EXPECT_EQ(largest_stage(config, 48), 48);
  config.stages.clear();
  config.max_steps = 5;
  const std::vector<Stage> only = stages_of(config, lengths);
  ASSERT_EQ(only.size(), 1u);
  EXPECT_EQ(only[0].num_steps, 5);
  EXPECT_EQ(only[0].num_samples, 48);
}

TEST(Stages, OneEpochReadsNothingTwice) {
  EXPECT_TRUE(read("epochs: 1\n").is_single_pass());
  EXPECT_FALSE(read("epochs: 2\n").is_single_pass());
  EXPECT_TRUE(read("stages: [{epochs: 1}]\n").is_single_pass());
  EXPECT_FALSE(read("stages: [{epochs: 1}, {epochs: 1}]\n").is_single_pass());
}

}  // namespace
}  // namespace sotto::train
