// The files of configs/: each can be read, has no key that there is not, and does what its comments
// say.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/config/config.h"
#include "sotto/data/batch/example.h"
#include "sotto/device/budget.h"
#include "sotto/device/device_table.h"
#include "sotto/models/conformer/conformer.h"
#include "sotto/models/decoder_lm/decoder_lm.h"
#include "sotto/models/model_profile.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"
#include "sotto/nn/blocks/memory_proof.h"
#include "sotto/train/step/config_aliases.h"
#include "sotto/train/step/dry_run.h"
#include "sotto/train/step/run_config.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::train {
namespace {

namespace fs = std::filesystem;
using test::contains;

const fs::path kConfigs = SOTTO_CONFIGS;
// Of `sotto prove memory`, all others are runs.
constexpr const char* kProof = "prove_memory.yaml";

RunConfig recipe_in(const fs::path& file) {
  ConfigNode tree = load_config(file);
  resolve_aliases(tree);
  return read_options<RunConfig>(tree);
}

std::vector<fs::path> recipes() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(kConfigs)) {
    // configs/lab has suites, which are no configurations of runs.
    if (entry.is_regular_file() && entry.path().filename() != kProof) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

double million_parameters(const RunConfig& config, int64_t vocabulary) {
  const auto profile = models::profile_model(config.model, {.vocabulary = vocabulary});
  return static_cast<double>(profile.parameters) / 1e6;
}

TEST(Recipes, HaveNoUnknownKeys) {
  EXPECT_GE(recipes().size(), 7u);
  for (const fs::path& file : recipes()) EXPECT_NO_THROW(recipe_in(file)) << file;
  EXPECT_NO_THROW(read_config<nn::MemoryProofOptions>(kConfigs / kProof));
}

// The first lines contain the command, and every command with a configuration uses this one.
TEST(Recipes, StartWithTheCommandThatUsesThem) {
  for (const fs::path& file : recipes()) {
    const std::string text = test::content_of(file);
    const std::string name = file.filename().string();
    EXPECT_PRED2(contains, text, "#   sotto train --config configs/" + name) << file;
    EXPECT_PRED2(contains, text, "\nformat_version: 1\n") << file;
    EXPECT_EQ(recipe_in(file).name, file.stem().string()) << file;
  }
}

TEST(Recipes, T4FitsInFp16WithMicroBatchesOfTwo) {
  const RunConfig config = recipe_in(kConfigs / "t4.yaml");
  EXPECT_EQ(config.micro_batch, 2);
  EXPECT_EQ(config.effective_batch.kind, data::EffectiveBatch::Kind::kUtterances);
  EXPECT_EQ(config.effective_batch.utterances, 8);
  EXPECT_EQ(config.numerics, Numerics::kFp16);
  EXPECT_EQ(config.tier, nn::Tier::kBlock);
  EXPECT_EQ(config.device, "cuda");

  // A step of the longest utterances that it takes, on a card that is not there.
  const device::KnownDevice& t4 = device::find_device("t4");
  EXPECT_NO_THROW(check_arithmetic(config.arithmetic(), t4.target()));
  const auto rows = static_cast<int64_t>(config.data.utterances.max_seconds *
                                         static_cast<double>(config.model.sample_rate()));
  std::vector<data::Example> step;
  for (int64_t i = 0; i < config.effective_batch.utterances; ++i)
    step.push_back(data::make_dry_example(rows, /*feature_dim=*/0, /*num_labels=*/300));
  DryRun dry(config, {.vocabulary = 40}, DryRun::Purpose::kTraining, t4.target());
  const device::MemoryReport report =
      dry.run_step(step, {.tier = config.tier, .limits = limits_of(config)});
  // Context and libraries take up to a gigabyte of the budget.
  const int64_t budget = device::resolve_budget(
      config.memory, {.total_bytes = t4.usable_bytes(), .free_bytes = t4.usable_bytes()}, "T4");
  EXPECT_LT(report.high_water, budget - (int64_t{1} << 30));
}

// The longest utterance alone fits; the budget decides how many more a micro-batch has.
TEST(Recipes, ConformerWithADecoderFitsATeslaT4InFp16) {
  const RunConfig config = recipe_in(kConfigs / "conformer.yaml");
  const models::ConformerOptions& model = config.model.as<models::ConformerOptions>();
  EXPECT_EQ(model.objective, models::ConformerObjective::kJoint);
  EXPECT_GT(model.decoder_layers, 0);
  EXPECT_EQ(config.keep_best, 5);
  EXPECT_EQ(config.device, "cuda");
  const device::KnownDevice& t4 = device::find_device("t4");
  EXPECT_NO_THROW(check_arithmetic(config.arithmetic(), t4.target()));
  const auto rows = static_cast<int64_t>(config.data.utterances.max_seconds *
                                         static_cast<double>(config.model.sample_rate()));
  const std::vector<data::Example> step(
      static_cast<size_t>(config.effective_batch.utterances),
      data::make_dry_example(rows, /*feature_dim=*/0, /*num_labels=*/300));
  DryRun dry(config, {.vocabulary = 40}, DryRun::Purpose::kTraining, t4.target());
  const device::MemoryReport report =
      dry.run_step(step, {.tier = config.tier, .limits = {.max_utterances = 1}});
  const int64_t budget = device::resolve_budget(
      config.memory, {.total_bytes = t4.usable_bytes(), .free_bytes = t4.usable_bytes()}, "T4");
  EXPECT_LT(report.high_water, budget - (int64_t{1} << 30));
}

TEST(Recipes, Wav2Vec2IsFineTunedInBf16WithFrozenConvolutions) {
  const RunConfig config = recipe_in(kConfigs / "wav2vec2.yaml");
  EXPECT_EQ(config.model.family().name, "wav2vec2");
  EXPECT_TRUE(config.model.as<models::Wav2Vec2Options>().freeze_feature_encoder);
  EXPECT_EQ(config.numerics, Numerics::kBf16Exact);
  EXPECT_EQ(config.optimizer.schedule.kind, optim::ScheduleKind::kTriStage);
}

TEST(Recipes, TransformerCtcStartsFromRandomWeights) {
  const RunConfig config = recipe_in(kConfigs / "transformer_ctc.yaml");
  EXPECT_EQ(config.model.family().name, "transformer_ctc");
  EXPECT_TRUE(config.init_from.empty());
  EXPECT_EQ(config.model.as<models::TransformerCtcOptions>().layers, 8);
  EXPECT_EQ(config.model.as<models::TransformerCtcOptions>().width, 256);
  EXPECT_NEAR(million_parameters(config, kTranscription.usual_vocabulary), 6.6, 0.05);
  EXPECT_EQ(config.model.as<models::TransformerCtcOptions>().spec_augment.frequency_masks, 2);
  EXPECT_EQ(config.data.augment.speeds, (std::vector<double>{0.9, 1.0, 1.1}));
}

TEST(Recipes, LanguageModelHasSixLayersOfWidth512) {
  const RunConfig config = recipe_in(kConfigs / "lm.yaml");
  EXPECT_TRUE(config.model.task().is_text());
  EXPECT_EQ(config.model.as<models::DecoderLmOptions>().layers, 6);
  EXPECT_EQ(config.model.as<models::DecoderLmOptions>().width, 512);
  EXPECT_EQ(config.data.row_tokens, 512);
  EXPECT_EQ(config.reduction, models::Reduction::kTokens);
}

TEST(Recipes, TinyOnesHaveAMillionParametersAndANarrowWindow) {
  for (const char* name : {"an4.yaml", "digits.yaml"}) {
    const RunConfig config = recipe_in(kConfigs / name);
    EXPECT_NEAR(million_parameters(config, kTranscription.usual_vocabulary), 1.1, 0.05) << name;
    const models::TransformerCtcOptions& model = config.model.as<models::TransformerCtcOptions>();
    // Behind subsampling by 4 a frame is 40 ms.
    EXPECT_EQ(model.subsampling_factor, 4) << name;
    EXPECT_EQ(model.attention_left, 16) << name;
    EXPECT_EQ(model.attention_right, 16) << name;
  }
}

TEST(Recipes, ConformersHaveACtcHeadMasksAndAWarmUp) {
  for (const char* name : {"an4_conformer.yaml", "demo.yaml", "fsdd.yaml", "iban.yaml"}) {
    const RunConfig config = recipe_in(kConfigs / name);
    ASSERT_EQ(config.model.family().name, "conformer") << name;
    const models::ConformerOptions& model = config.model.as<models::ConformerOptions>();
    EXPECT_EQ(model.objective, models::ConformerObjective::kCtc) << name;
    EXPECT_GT(model.spec_augment.time_masks, 0) << name;
    const optim::ScheduleOptions& schedule = config.optimizer.schedule;
    EXPECT_TRUE(schedule.warmup_steps > 0 || schedule.warmup_share > 0.0) << name;
    EXPECT_LT(million_parameters(config, kTranscription.usual_vocabulary), 3.5) << name;
    EXPECT_EQ(config.keep_best, std::string_view(name) == "demo.yaml" ? 1 : 5) << name;
  }
}

}  // namespace
}  // namespace sotto::train
