#include "sotto/train/run/resume.h"

#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/data/batch/dataset.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "support/checkpoints.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"

namespace sotto::train {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;

Checkpoint checkpoint_of(const RunConfig& config, int64_t schedule_steps = 0) {
  RunState state;
  state.schedule_steps = schedule_steps;
  return {.state = state, .config = config, .tokenizer = test::tokenizer_of("abcd")};
}

TEST(Resume, EverySettingIsRefusedOrNoted) {
  const RunConfig before = test::tiny_config();
  EXPECT_TRUE(check_settings(checkpoint_of(before), before).empty());
  RunConfig config = before;
  config.memory = MemorySize::parse("1GiB");
  config.epochs = 7;
  config.tier = nn::Tier::kBlock;
  EXPECT_EQ(check_settings(checkpoint_of(before), config),
            (std::vector<std::string>{"memory was auto and is 1GiB", "tier was norms and is block",
                                      "epochs was 1 and is 7"}));
  config.seed = 9;
  config.model.as<models::TransformerCtcOptions>().dropout = 0.5;
  const std::string message =
      message_of<ConfigError>([&] { check_settings(checkpoint_of(before), config); });
  EXPECT_PRED2(contains, message, "model.dropout was 0.1 and is 0.5; seed was 1 and is 9.");
  EXPECT_FALSE(contains(message, "memory"));
}

// A different network has different keys.
TEST(Resume, AnotherPresetIsOneDifference) {
  RunConfig config = test::tiny_config();
  config.model = models::ModelOptions::of_preset("wav2vec2-base");
  const std::string message =
      message_of<ConfigError>([&] { check_settings(checkpoint_of(test::tiny_config()), config); });
  EXPECT_PRED2(contains, message, "resuming a run: model.preset was small and is wav2vec2-base.");
}

TEST(Resume, GivenSettingsOverrideTheRunsOwn) {
  RunConfig before = test::tiny_config();
  before.numerics = Numerics::kBf16Exact;
  before.precision.remainder_bits = 8;
  before.seed = 4;
  RunConfig config = resumed_config(before, load_overrides({"memory=2GiB", "numerics=bf16-exact"}));
  EXPECT_EQ(config.seed, 4);
  EXPECT_EQ(config.memory, MemorySize::parse("2GiB"));
  EXPECT_EQ(config.precision.remainder_bits, 8);
  // It was set for other numerics.
  config = resumed_config(before, load_overrides({"numerics=fp32"}));
  EXPECT_EQ(config.precision.remainder_bits, std::nullopt);
}

TEST(Resume, ScheduleStaysUnlessTheRunIsExtended) {
  RunConfig config = test::tiny_config();
  config.epochs = 8;
  constexpr int64_t kPerEpoch = 10;
  EXPECT_EQ(length_of(config, kPerEpoch), (RunLength{80, 80}));
  const Checkpoint before = checkpoint_of(config, 80);
  EXPECT_EQ(length_of(config, kPerEpoch, before), (RunLength{80, 80}));
  EXPECT_EQ(length_of(config, kPerEpoch, checkpoint_of(config)), (RunLength{80, 80})) << "old";
  const auto with = [&](int64_t max_steps, int64_t epochs, const Checkpoint& of) {
    RunConfig changed = of.config;
    changed.max_steps = max_steps;
    changed.epochs = epochs;
    return length_of(changed, kPerEpoch, of);
  };
  EXPECT_EQ(with(52, 8, before), (RunLength{52, 80}));
  EXPECT_EQ(with(0, 4, before), (RunLength{40, 80}));
  EXPECT_EQ(with(0, 9, before), (RunLength{90, 90}));
  EXPECT_EQ(with(100, 8, before), (RunLength{100, 100}));
  // What a run was cut to stays until it is named again.
  config.max_steps = 52;
  const Checkpoint cut = checkpoint_of(config, 80);
  EXPECT_EQ(with(52, 8, cut), (RunLength{52, 80}));
  EXPECT_EQ(with(0, 8, cut), (RunLength{80, 80}));
  config.max_steps = 100;
  EXPECT_EQ(length_of(config, kPerEpoch), (RunLength{100, 100})) << "whatever its epochs are";
  EXPECT_EQ(with(100, 8, checkpoint_of(config, 80)), (RunLength{80, 80}))
      << "in earlier versions it ended with its epochs";
  EXPECT_EQ(with(100, 8, checkpoint_of(config, 100)), (RunLength{100, 100})) << "was extended";
}

TEST(Resume, ChangedLengthReportsItsEffectOnTheRate) {
  const optim::ScheduleOptions linear{.kind = optim::ScheduleKind::kLinear, .rate = 1e-3};
  const optim::ScheduleOptions constant{.kind = optim::ScheduleKind::kConstant, .rate = 1e-3};
  EXPECT_EQ(describe_change({80, 80}, {80, 80}, 41, linear), "");
  EXPECT_EQ(describe_change({80, 80}, {52, 80}, 41, linear),
            "the run stops at step 52; its schedule remains that of 80 steps");
  EXPECT_EQ(describe_change({80, 80}, {160, 160}, 41, linear),
            "the run is extended from 80 to 160 steps: its schedule is stretched, and the rate of "
            "step 41 is 7.50e-04 instead of 5.00e-04");
  EXPECT_EQ(describe_change({80, 80}, {160, 160}, 41, constant),
            "the run is extended from 80 to 160 steps: the rate of step 41 stays 1.00e-03");
}

class ResumedData : public ::testing::Test {
 protected:
  data::Dataset dataset(const data::DatasetOptions& options = {}) const {
    return {data::Manifest::read(manifest_), test::tokenizer_of("abcd"), options};
  }
  RunState state() const {
    const data::Dataset source = dataset();
    RunState state;
    state.order_fingerprint = order_fingerprint(source);
    for (const data::FileHash& file : source.hash_files(kHashedFiles))
      state.file_hashes.push_back(file.hash);
    return state;
  }

  test::TempFolder folder_;
  fs::path manifest_ = test::write_tiny_corpus(folder_.path(), "train", 40, 1);
};

TEST_F(ResumedData, ChangedItemsAreRefused) {
  const RunState before = state();
  EXPECT_EQ(before.file_hashes.size(), 40u);
  EXPECT_NO_THROW(check_items(before, dataset()));
  EXPECT_NO_THROW(check_items({}, dataset({.max_samples = 20})))
      << "a checkpoint that says nothing";
  EXPECT_PRED2(contains,
               message_of<DataError>([&] { check_items(before, dataset({.max_samples = 20})); }),
               "the utterances selected from " + manifest_.string() + " have changed");
}

TEST_F(ResumedData, ChangedAndMissingFilesAreRefused) {
  const RunState before = state();
  const fs::path features = folder_.path() / "train.f16";
  const std::string bytes = test::content_of(features);
  for (const size_t index : {size_t{0}, bytes.size() / 3, bytes.size() - 1}) {
    std::string changed = bytes;
    changed[index] = static_cast<char>(changed[index] ^ 1);
    folder_.write("train.f16", changed);
    EXPECT_PRED2(contains, message_of<DataError>([&] { check_items(before, dataset()); }),
                 "1 of 40 compared files have changed");
  }
  fs::remove(features);
  EXPECT_PRED2(contains, message_of<DataError>([&] { check_items(before, dataset()); }),
               "40 of 40 compared files have changed");
  folder_.write("train.f16", bytes);
  EXPECT_NO_THROW(check_items(before, dataset()));
}

// At most the requested number of files, the same ones each time.
TEST_F(ResumedData, SampleOfFilesIsChecked) {
  const std::vector<data::FileHash> some = dataset().hash_files(7);
  EXPECT_EQ(some.size(), 7u);
  EXPECT_EQ(some, dataset().hash_files(7));
  const std::vector<data::FileHash> all = dataset().hash_files(1000);
  EXPECT_EQ(all.size(), 40u);
}

}  // namespace
}  // namespace sotto::train
