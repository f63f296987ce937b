// Whisper in Hugging Face folders: what a config.json says, what is refused, and what is written.
#include "sotto/models/whisper/whisper_hugging_face.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sotto/core/files/text_file.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/models/hub/hugging_face.h"
#include "sotto/models/whisper/whisper_options.h"
#include "support/byte_vocabulary.h"
#include "support/fixture.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::models {
namespace {

using nlohmann::json;
using test::contains;
using test::message_of;

json whisper_config() {
  return {{"model_type", "whisper"},
          {"d_model", 32},
          {"encoder_layers", 3},
          {"decoder_layers", 2},
          {"encoder_attention_heads", 4},
          {"decoder_attention_heads", 2},
          {"encoder_ffn_dim", 48},
          {"decoder_ffn_dim", 40},
          {"num_mel_bins", 128},
          {"vocab_size", 1774},
          {"decoder_start_token_id", 263},
          {"eos_token_id", 262},
          {"dropout", 0.1},
          {"activation_dropout", 0.2},
          {"encoder_layerdrop", 0.3},
          {"decoder_layerdrop", 0.4},
          {"apply_spec_augment", true},
          {"mask_time_prob", 0.07},
          {"mask_feature_prob", 0.01},
          {"mask_feature_length", 64},
          {"mask_feature_min_masks", 1},
          {"max_source_positions", 1500},
          {"max_target_positions", 448},
          {"begin_suppress_tokens", {220, 262}}};
}

class WhisperFolder : public ::testing::Test {
 protected:
  HuggingFaceModel read(const json& config) {
    folder_.write("config.json", config.dump());
    return read_hugging_face(folder_.path());
  }
  std::string refusal_of(const std::string& key, const json& value) {
    json config = whisper_config();
    config[key] = value;
    return message_of<ConfigError>([&] { read(config); });
  }

  test::TempFolder folder_;
};

TEST_F(WhisperFolder, HasTheSettingsOfItsFile) {
  const HuggingFaceModel model = read(whisper_config());
  const auto& options = model.options.as<WhisperOptions>();
  EXPECT_EQ(options.layers, 3);
  EXPECT_EQ(options.decoder_layers, 2);
  EXPECT_EQ(options.decoder_heads, 2);
  EXPECT_EQ(options.hidden, 48);
  EXPECT_EQ(options.decoder_hidden, 40);
  EXPECT_EQ(options.features.num_mels, 128);
  EXPECT_EQ(options.tokens.start, 263);
  EXPECT_EQ(options.tokens.end, 262);
  EXPECT_TRUE(options.tokens.multilingual);
  EXPECT_EQ(options.dropout, 0.1);
  EXPECT_EQ(options.activation_dropout, 0.2);
  EXPECT_EQ(options.layer_drop, 0.3);
  EXPECT_EQ(options.decoder_layer_drop, 0.4);
  EXPECT_TRUE(options.mask);
  EXPECT_EQ(options.mask_time_probability, 0.07);
  EXPECT_EQ(options.mask_feature_length, 64);
  EXPECT_EQ(options.mask_feature_min, 1);
  EXPECT_EQ(options.window, WhisperWindow::kWhole);
  EXPECT_EQ(options.window_samples(), 480'000);
  EXPECT_EQ(model.reduction, Reduction::kTokens);
  EXPECT_TRUE(model.notes.empty());
}

// transformers' defaults are the numbers of English alone.
TEST_F(WhisperFolder, MayBeOfEnglishAlone) {
  const HuggingFaceModel model = read({{"model_type", "whisper"}, {"vocab_size", 51'864}});
  const auto& tokens = model.options.as<WhisperOptions>().tokens;
  EXPECT_EQ(tokens.start, 50'257);
  EXPECT_EQ(tokens.end, 50'256);
  EXPECT_FALSE(tokens.multilingual);
  EXPECT_EQ(tokens.num_prompt(), 1);
}

TEST_F(WhisperFolder, IsRefusedIfItCannotBeBuilt) {
  EXPECT_PRED2(contains, refusal_of("scale_embedding", true), "\"scale_embedding\": true");
  EXPECT_PRED2(contains, refusal_of("activation_function", "relu"), "gelu");
  EXPECT_PRED2(contains, refusal_of("tie_word_embeddings", false), "tie_word_embeddings");
  EXPECT_PRED2(contains, refusal_of("use_weighted_layer_sum", true), "use_weighted_layer_sum");
  EXPECT_PRED2(contains, refusal_of("encoder_attention_heads", 5), "5 heads");
  json config = whisper_config();
  config["attention_dropout"] = 0.1;
  EXPECT_PRED2(contains, read(config).notes.front(), "attention_dropout 0.1 becomes 0");
}

TEST_F(WhisperFolder, IsRefusedIfItsFeaturesDiffer) {
  const auto refused = [&](const json& extractor) {
    folder_.write("preprocessor_config.json", extractor.dump());
    return message_of<ConfigError>([&] { read(whisper_config()); });
  };
  EXPECT_PRED2(contains, refused({{"feature_size", 80}}), "num_mel_bins");
  EXPECT_PRED2(contains, refused({{"feature_size", 128}, {"chunk_length", 20}}), "480000 samples");
  EXPECT_PRED2(contains, refused({{"feature_size", 128}, {"dither", 0.1}}), "dither");
  folder_.write("preprocessor_config.json", json({{"feature_size", 128}}).dump());
  EXPECT_EQ(read(whisper_config()).options.as<WhisperOptions>().features.hop, 160);
}

// Unrelated keys stay; all others come from the settings.
TEST_F(WhisperFolder, IsWrittenAsItWasRead) {
  HuggingFaceModel model = read(whisper_config());
  const test::TempFolder out;
  write_hugging_face_config(out.path(), {.model = model.options,
                                         .shape = {.vocabulary = 1774, .blank = 262},
                                         .source = read_model_config(folder_.path())});
  const json written = json::parse(read_text_file(out.path() / "config.json"));
  const json source = whisper_config();
  for (const auto& [key, value] : source.items()) EXPECT_EQ(written.at(key), value) << key;
  const json extractor = json::parse(read_text_file(out.path() / "preprocessor_config.json"));
  EXPECT_EQ(extractor.at("feature_size"), 128);
  EXPECT_EQ(extractor.at("chunk_length"), 30);
  EXPECT_EQ(extractor.at("n_samples"), 480'000);
  // Without a tokenizer there are no numbers to generate with.
  EXPECT_FALSE(std::filesystem::exists(out.path() / "generation_config.json"));
}

TEST_F(WhisperFolder, HasWhatGeneratingNeeds) {
  const HuggingFaceModel model = read(whisper_config());
  const test::TempFolder source, out;
  const data::Tokenizer tokenizer = data::Tokenizer::read(test::write_tiny_whisper(source), {});
  write_hugging_face_config(out.path(), {.model = model.options,
                                         .shape = {.vocabulary = 1774, .blank = 262},
                                         .tokenizer = &tokenizer});
  const json generation = json::parse(read_text_file(out.path() / "generation_config.json"));
  EXPECT_EQ(generation.at("decoder_start_token_id"), 263);
  EXPECT_EQ(generation.at("lang_to_id"), json({{"<|en|>", 264}, {"<|pl|>", 265}, {"<|ms|>", 266}}));
  EXPECT_EQ(generation.at("task_to_id").at("translate"), 267);
  EXPECT_EQ(generation.at("no_timestamps_token_id"), 272);
  EXPECT_TRUE(generation.at("is_multilingual"));
}

// One that came with the tokenizer is kept as it is.
TEST_F(WhisperFolder, KeepsItsGenerationConfig) {
  const HuggingFaceModel model = read(whisper_config());
  const test::TempFolder source, out;
  source.write("generation_config.json", R"({"suppress_tokens": [1, 2]})");
  const data::Tokenizer tokenizer = data::Tokenizer::read(test::write_tiny_whisper(source), {});
  write_hugging_face_config(out.path(), {.model = model.options,
                                         .shape = {.vocabulary = 1774, .blank = 262},
                                         .tokenizer = &tokenizer});
  tokenizer.write(out.path());
  EXPECT_EQ(read_text_file(out.path() / "generation_config.json"),
            R"({"suppress_tokens": [1, 2]})");
}

}  // namespace
}  // namespace sotto::models
