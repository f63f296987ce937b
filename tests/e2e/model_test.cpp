// Models by name on the command line: described, and refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/run_command.h"
#include "support/thrown.h"

namespace sotto::test {
namespace {

TEST(ModelsOnTheCommandLine, AreDescribedWithoutTheirWeights) {
  const CommandResult result = run_sotto({"profile", "--model", "xls-r-1b", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto profile = nlohmann::json::parse(result.out);
  EXPECT_EQ(profile["parameters"], 962'538'400);
  EXPECT_EQ(profile["layers"], 48);
  const CommandResult frozen = run_sotto(
      {"profile", "--model", "wav2vec2-base", "--set", "freeze_layers=12", "--vocabulary", "100"});
  ASSERT_EQ(frozen.exit_code, 0) << frozen.err;
  EXPECT_PRED2(contains, frozen.out, "0.08 million");
}

// As in docs/models.md: the recipe of one family with a model of another.
TEST(ModelsOnTheCommandLine, KeysOfAnotherFamilyAreNamed) {
  const std::string recipe = std::string(SOTTO_CONFIGS) + "/digits.yaml";
  for (const char* command : {"train", "plan"}) {
    const CommandResult result =
        run_sotto({command, "--config", recipe, "--model", "xls-r-300m", "--train", "a.jsonl"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_PRED2(contains, result.err,
                 "digits.yaml for --model xls-r-300m: settings of other families: "
                 "model.attention_left (transformer_ctc");
    EXPECT_PRED2(contains, result.err, "). Expected settings of wav2vec2");
    EXPECT_PRED2(contains, result.err, "--config configs/wav2vec2.yaml");
  }
  const CommandResult set = run_sotto({"train", "--train", "a.jsonl", "--set", "model.preset=tiny",
                                       "--set", "model.freeze_layers=2"});
  EXPECT_EQ(set.exit_code, 2);
  EXPECT_PRED2(contains, set.err, "a setting of other families: model.freeze_layers (");
  // What no family knows is a mistyped key.
  const CommandResult mistyped =
      run_sotto({"train", "--train", "a.jsonl", "--model", "tiny", "--set", "model.lyers=2"});
  EXPECT_PRED2(contains, mistyped.err, "Did you mean 'layers'?");
}

// A download would take minutes, and the model could not be loaded.
TEST(ModelsOnTheCommandLine, UnsupportedKindsAreNotSuggestedForDownload) {
  for (const char* name : {"moonshine-tiny", "facebook/hubert-base-ls960", "nvidia/canary-1b"}) {
    const CommandResult result =
        run_sotto({"train", "--model", name, "--train", "a.jsonl"}, {"HF_HOME=/nowhere/at/all"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_PRED2(contains, result.err, " model, by its name");
    EXPECT_FALSE(contains(result.err, std::string("hf download ") + name)) << result.err;
  }
}

TEST(ModelsOnTheCommandLine, UnknownNamesAreRefused) {
  const CommandResult preset = run_sotto({"profile", "--model", "wav2vec2-bse"});
  EXPECT_EQ(preset.exit_code, 2);
  EXPECT_PRED2(contains, preset.err, "Did you mean 'wav2vec2-base'?");
  const CommandResult folder = run_sotto({"profile", "--model", "./no/such/folder"});
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_PRED2(contains, folder.err, "no folder");
  const CommandResult id =
      run_sotto({"profile", "--model", "no-such/model"}, {"HF_HOME=/nowhere/at/all"});
  EXPECT_EQ(id.exit_code, 2);
  EXPECT_PRED2(contains, id.err, "hf download no-such/model");
  const CommandResult whisper =
      run_sotto({"profile", "--model", "openai/whisper-tiny"}, {"HF_HOME=/nowhere/at/all"});
  EXPECT_EQ(whisper.exit_code, 2);
  EXPECT_PRED2(contains, whisper.err, "hf download openai/whisper-tiny");
  const CommandResult lm = run_sotto(
      {"train", "--model", "decoder-lm", "--train", "a.jsonl", "--set", "data.max_seconds=9"});
  EXPECT_EQ(lm.exit_code, 2);
  EXPECT_PRED2(contains, lm.err, "learns from text");
  const CommandResult setting =
      run_sotto({"profile", "--model", "wav2vec2-base", "--set", "subsampling=conv"});
  EXPECT_EQ(setting.exit_code, 2);
  EXPECT_PRED2(contains, setting.err, "subsampling");
}

}  // namespace
}  // namespace sotto::test
