#include "sotto/models/hub/hugging_face.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "sotto/models/model_profile.h"
#include "sotto/models/parts/mask_checks.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"
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

TEST(HuggingFace, ReadsSettingsFromConfig) {
  const test::TempFolder folder;
  folder.write("config.json", good_config().dump());
  folder.write("preprocessor_config.json", R"({"do_normalize": false, "sampling_rate": 8000})");
  const HuggingFaceModel model = read_hugging_face(folder.path());
  const Wav2Vec2Options& options = model.options.as<models::Wav2Vec2Options>();
  EXPECT_EQ(options.width, 32);
  EXPECT_EQ(options.layers, 2);
  EXPECT_TRUE(options.norm_first);
  EXPECT_EQ(options.conv_norm, nn::WaveNormKind::kLayer);
  EXPECT_FALSE(options.normalise);
  EXPECT_EQ(options.sample_rate, 8000);
  EXPECT_TRUE(options.freeze_feature_encoder);
  // What the file does not say is as transformers has it, and what cannot be is said.
  EXPECT_EQ(options.position_taps, 128);
  ASSERT_EQ(model.notes.size(), 4u);
  EXPECT_PRED2(contains, model.notes[0], "attention_dropout 0.1 becomes 0");
  EXPECT_PRED2(contains, model.notes[1], "ctc_zero_infinity becomes true");
  EXPECT_PRED2(contains, model.notes[3], "reduction=sum, from ctc_loss_reduction sum");
}

TEST(HuggingFace, ReadsLossFromConfig) {
  const test::TempFolder folder;
  nlohmann::json config = good_config();
  folder.write("config.json", config.dump());
  EXPECT_EQ(read_hugging_face(folder.path()).reduction, models::Reduction::kSum);
  config["ctc_loss_reduction"] = "mean";
  config["ctc_zero_infinity"] = true;
  config["attention_dropout"] = 0.0;
  folder.write("config.json", config.dump());
  const HuggingFaceModel model = read_hugging_face(folder.path());
  EXPECT_EQ(model.reduction, models::Reduction::kCtcMean);
  EXPECT_EQ(model.notes.size(), 2u);
}

// Looked up as in transformers: first inside processor_config.json.
TEST(HuggingFace, ReadsFeatureExtractorInEveryForm) {
  const test::TempFolder folder;
  folder.write("config.json", good_config().dump());
  const auto options = [&] {
    return read_hugging_face(folder.path()).options.as<models::Wav2Vec2Options>();
  };
  EXPECT_TRUE(options().normalise);
  EXPECT_EQ(options().sample_rate, 16'000);
  folder.write("preprocessor_config.json", R"({"sampling_rate": 11025})");
  EXPECT_EQ(options().sample_rate, 11'025);
  // Of an older version, which says nothing of it.
  folder.write("processor_config.json", R"({"processor_class": "Wav2Vec2Processor"})");
  EXPECT_EQ(options().sample_rate, 11'025);
  for (const char* key : {"feature_extractor", "audio_processor"}) {
    folder.write("processor_config.json",
                 nlohmann::json{{key, {{"do_normalize", false}, {"sampling_rate", 8000}}}}.dump());
    EXPECT_FALSE(options().normalise) << key;
    EXPECT_EQ(options().sample_rate, 8'000) << key;
  }
  const auto refusal_of = [&](const nlohmann::json& extractor) {
    folder.write("processor_config.json", nlohmann::json{{"feature_extractor", extractor}}.dump());
    return test::message_of<ConfigError>([&] { read_hugging_face(folder.path()); });
  };
  EXPECT_PRED2(contains, refusal_of({{"feature_extractor_type", "WhisperFeatureExtractor"}}),
               "WhisperFeatureExtractor");
  EXPECT_PRED2(contains, refusal_of({{"feature_size", 80}}), "\"feature_size\": 80");
  EXPECT_PRED2(contains, refusal_of({{"do_normalize", "no"}}), "\"do_normalize\": \"no\"");
  EXPECT_PRED2(contains, refusal_of(3), "a JSON object of settings");
}

// Every config.json has settings of disabled masks.
TEST(HuggingFace, IgnoresSettingsOfDisabledMasks) {
  const test::TempFolder folder;
  nlohmann::json config = good_config();
  config["mask_feature_length"] = 64;
  config["mask_time_length"] = 20;
  folder.write("config.json", config.dump());
  const Wav2Vec2Options on = read_hugging_face(folder.path()).options.as<models::Wav2Vec2Options>();
  EXPECT_EQ(on.mask_feature_length, 10) << "mask_feature_prob is 0";
  EXPECT_EQ(on.mask_time_length, 20);
  config["apply_spec_augment"] = false;
  config["mask_time_prob"] = 0.3;
  folder.write("config.json", config.dump());
  const ModelOptions off = read_hugging_face(folder.path()).options;
  EXPECT_EQ(off.as<models::Wav2Vec2Options>().mask_time_probability, 0.05);
  EXPECT_EQ(off.as<models::Wav2Vec2Options>().mask_time_length, 10);
  EXPECT_NO_THROW(off.check_effects({}));
}

TEST(HuggingFace, WritesTrainingSettingsAndKeepsTheRest) {
  const test::TempFolder folder;
  ModelOptions options = ModelOptions::of_preset("wav2vec2-base");
  options.as<models::Wav2Vec2Options>().dropout = 0.25;
  const DataShape shape{.vocabulary = 40, .blank = 3};
  const std::string source =
      R"({"attention_dropout": 0.3, "hidden_dropout": 0.1, "bos_token_id": 7, "dtype": "float16",
          "ctc_loss_reduction": "mean", "ctc_zero_infinity": false, "mask_feature_length": 64,
          "_name_or_path": "some/place"})";
  const auto written = [&](const HuggingFaceConfig& config) {
    write_hugging_face_config(folder.path(), config);
    return nlohmann::json::parse(test::content_of(folder.path() / "config.json"));
  };
  const nlohmann::json kept = written({.model = options, .shape = shape, .source = source});
  EXPECT_EQ(kept["attention_dropout"], 0.3);
  EXPECT_EQ(kept["hidden_dropout"], 0.25);
  EXPECT_EQ(kept["bos_token_id"], 7);
  EXPECT_EQ(kept["dtype"], "float16");
  EXPECT_EQ(kept["ctc_loss_reduction"], "mean");
  EXPECT_EQ(kept["ctc_zero_infinity"], false);
  EXPECT_EQ(kept["mask_feature_length"], 64);
  EXPECT_EQ(kept["vocab_size"], 40);
  EXPECT_EQ(kept["pad_token_id"], 3);
  EXPECT_FALSE(kept.contains("_name_or_path"));
  const nlohmann::json trained = written({.model = options,
                                          .shape = shape,
                                          .source = source,
                                          .reduction = models::Reduction::kSum,
                                          .weights = at::kFloat});
  EXPECT_EQ(trained["ctc_loss_reduction"], "sum");
  EXPECT_EQ(trained["ctc_zero_infinity"], true);
  EXPECT_EQ(trained["dtype"], "float32");
  EXPECT_EQ(trained["attention_dropout"], 0.3);
  const nlohmann::json fresh = written({.model = options,
                                        .shape = shape,
                                        .reduction = models::Reduction::kCtcMean,
                                        .weights = at::kBFloat16});
  EXPECT_EQ(fresh["attention_dropout"], 0.0);
  EXPECT_EQ(fresh["ctc_loss_reduction"], "mean");
  EXPECT_EQ(fresh["dtype"], "bfloat16");
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
  EXPECT_PRED2(contains, refusal_of("num_attention_heads", 5),
               "a number of heads that divides the width");
  EXPECT_PRED2(contains, refusal_of("num_attention_heads", 0), "heads");
  EXPECT_PRED2(contains, refusal_of("num_attention_heads", "many"), "a whole number");
  EXPECT_PRED2(contains, refusal_of("hidden_size", 32.5), "a whole number");
  EXPECT_PRED2(contains, refusal_of("conv_kernel", {10, "3"}), "a list of whole numbers");
  EXPECT_PRED2(contains, refusal_of("model_type", "hubert"), "wav2vec2");
  EXPECT_PRED2(contains, refusal_of("add_adapter", true), "add_adapter");
  EXPECT_PRED2(contains, refusal_of("conv_stride", {5, 2}), "conv_strides");
  EXPECT_PRED2(contains, refusal_of("feat_extract_norm", "batch"), "group or layer");
  EXPECT_PRED2(contains, refusal_of("ctc_loss_reduction", "none"), "sum or mean");
  EXPECT_PRED2(contains, refusal_of("num_hidden_layers", -3), "config.json");
}

TEST(HuggingFace, BrokenFolderIsADataError) {
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

TEST(HuggingFace, MissingFolderIsADataError) {
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

// Counted by transformers 5.17 (ParakeetForCTC), whose statistics of batch norms are not
// parameters.
TEST(ModelProfile, CountsTheParametersOfParakeet) {
  const auto parameters_of = [](const char* preset) {
    return profile_model(ModelOptions::of_preset(preset), {.vocabulary = 1025}).parameters;
  };
  EXPECT_EQ(parameters_of("parakeet-ctc-0.6b"), 608'799'745);
  EXPECT_EQ(parameters_of("parakeet-ctc-1.1b"), 1'062'540'289);
}

TEST(ModelProfile, FrozenPartsAreNotTrainable) {
  ModelOptions options = ModelOptions::of_preset("xls-r-1b");
  options.as<models::Wav2Vec2Options>().freeze_feature_encoder = true;
  const ModelProfile profile = profile_model(options, {.vocabulary = 32});
  EXPECT_LT(profile.trainable, profile.parameters);
  EXPECT_EQ(profile.layers, 48);
  EXPECT_EQ(profile.width, 1280);
  for (const ModelProfile::Bytes& row : profile.bytes) EXPECT_GT(row.bytes, 0) << row.what;
}

}  // namespace
}  // namespace sotto::models
