#include "sotto/models/hugging_face.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "sotto/models/model_profile.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::models {
namespace {

using test::contains;

nlohmann::json good_config() {
  return {{"model_type", "wav2vec2"}, {"hidden_size", 32},           {"num_attention_heads", 4},
          {"num_hidden_layers", 2},   {"intermediate_size", 64},     {"do_stable_layer_norm", true},
          {"conv_bias", true},        {"feat_extract_norm", "layer"}};
}

TEST(HuggingFace, TakesTheSettingsOfAConfig) {
  const test::TempFolder folder;
  folder.write("config.json", good_config().dump());
  folder.write("preprocessor_config.json", R"({"do_normalize": false, "sampling_rate": 8000})");
  const HuggingFaceModel model = read_hugging_face(folder.path());
  const Wav2Vec2Options& options = model.options.wav2vec2;
  EXPECT_EQ(options.width, 32);
  EXPECT_EQ(options.layers, 2);
  EXPECT_TRUE(options.norm_first);
  EXPECT_EQ(options.conv_norm, nn::WaveNormKind::kLayer);
  EXPECT_FALSE(options.normalise);
  EXPECT_EQ(options.sample_rate, 8000);
  EXPECT_TRUE(options.freeze_feature_encoder);
  // What the file does not say is as transformers has it, and what cannot be is said.
  EXPECT_EQ(options.position_taps, 128);
  ASSERT_EQ(model.notes.size(), 2u);
  EXPECT_PRED2(contains, model.notes[0], "attention_dropout 0.1 becomes 0");
}

TEST(HuggingFace, RefusesWhatItCannotBuild) {
  const test::TempFolder folder;
  const auto refusal_of = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json config = good_config();
    config[key] = value;
    folder.write("config.json", config.dump());
    return test::message_of<ConfigError>([&] { read_hugging_face(folder.path()); });
  };
  EXPECT_PRED2(contains, refusal_of("hidden_act", "quick_gelu"), "gelu, relu or silu");
  EXPECT_PRED2(contains, refusal_of("num_attention_heads", 5), "heads that divide the width");
  EXPECT_PRED2(contains, refusal_of("num_attention_heads", 0), "heads");
  EXPECT_PRED2(contains, refusal_of("num_attention_heads", "many"), "a whole number");
  EXPECT_PRED2(contains, refusal_of("hidden_size", 32.5), "a whole number");
  EXPECT_PRED2(contains, refusal_of("conv_kernel", {10, "3"}), "a list of whole numbers");
  EXPECT_PRED2(contains, refusal_of("model_type", "hubert"), "wav2vec2");
  EXPECT_PRED2(contains, refusal_of("add_adapter", true), "add_adapter");
  EXPECT_PRED2(contains, refusal_of("conv_stride", {5, 2}), "conv_strides");
  EXPECT_PRED2(contains, refusal_of("feat_extract_norm", "batch"), "group or layer");
  EXPECT_PRED2(contains, refusal_of("num_hidden_layers", -3), "config.json");
}

TEST(HuggingFace, ABrokenFolderIsADataError) {
  const test::TempFolder folder;
  const auto refusal = [&] {
    return test::message_of<DataError>([&] { read_hugging_face(folder.path()); });
  };
  EXPECT_PRED2(contains, refusal(), "config.json");
  folder.write("config.json", "{\"model_type\": \"wav2");
  EXPECT_PRED2(contains, refusal(), "JSON object");
  folder.write("config.json", "[1, 2]");
  EXPECT_PRED2(contains, refusal(), "JSON object");
}

TEST(HuggingFace, AFolderThatIsNotThereIsADataErrorWithTheLineToType) {
  EXPECT_PRED2(contains,
               test::message_of<DataError>([] { find_model_folder("no-such/model-at-all"); }),
               "no-such/model-at-all");
}

// Counted by transformers 5.17 (Wav2Vec2ForCTC of the released configurations with 32 entries).
TEST(ModelProfile, CountsTheParametersOfKnownModels) {
  const auto parameters_of = [](const char* preset) {
    return profile_model(ModelOptions::of_preset(preset), {.vocabulary = 32}).parameters;
  };
  EXPECT_EQ(parameters_of("wav2vec2-base"), 94'396'320);
  EXPECT_EQ(parameters_of("wav2vec2-large"), 315'461'792);
  EXPECT_EQ(parameters_of("wav2vec2-large-lv60"), 315'471'520);
  EXPECT_EQ(parameters_of("xls-r-1b"), 962'538'400);
  EXPECT_EQ(parameters_of("xls-r-2b"), 2'159'321'120);
}

TEST(ModelProfile, FrozenPartsDoNotTrain) {
  ModelOptions options = ModelOptions::of_preset("xls-r-1b");
  options.wav2vec2.freeze_feature_encoder = true;
  const ModelProfile profile = profile_model(options, {.vocabulary = 32});
  EXPECT_LT(profile.trainable, profile.parameters);
  EXPECT_EQ(profile.layers, 48);
  EXPECT_EQ(profile.width, 1280);
  for (const ModelProfile::Bytes& row : profile.bytes) EXPECT_GT(row.bytes, 0) << row.what;
}

}  // namespace
}  // namespace sotto::models
