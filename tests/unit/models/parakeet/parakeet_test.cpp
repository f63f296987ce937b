// Parakeet's settings: what a config.json says, and what is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sotto/core/config/config.h"
#include "sotto/core/files/text_file.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/models/hub/hugging_face.h"
#include "sotto/models/parakeet/parakeet_options.h"
#include "support/fixture.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::models {
namespace {

using nlohmann::json;
using test::contains;
using test::message_of;

json released_config() {
  return {{"model_type", "parakeet_ctc"},
          {"vocab_size", 12},
          {"pad_token_id", 11},
          {"encoder_config", {{"num_hidden_layers", 2}, {"hidden_size", 24}}}};
}

class ParakeetFolder : public ::testing::Test {
 protected:
  HuggingFaceModel read(const json& config) {
    folder_.write("config.json", config.dump());
    return read_hugging_face(folder_.path());
  }
  std::string refusal_of(const std::string& key, const json& value) {
    json config = released_config();
    config["encoder_config"][key] = value;
    return message_of<ConfigError>([&] { read(config); });
  }

  test::TempFolder folder_;
};

TEST_F(ParakeetFolder, HasTheSettingsOfItsFile) {
  json config = released_config();
  config["encoder_config"].update({{"num_attention_heads", 4},
                                   {"intermediate_size", 48},
                                   {"attention_bias", false},
                                   {"convolution_bias", false},
                                   {"scale_input", false},
                                   {"num_mel_bins", 128},
                                   {"dropout", 0.2},
                                   {"activation_dropout", 0.3},
                                   {"layerdrop", 0.0}});
  const HuggingFaceModel model = read(config);
  const auto& options = model.options.as<ParakeetOptions>();
  EXPECT_EQ(options.layers, 2);
  EXPECT_EQ(options.hidden, 48);
  EXPECT_FALSE(options.biases);
  EXPECT_FALSE(options.scale_input);
  EXPECT_EQ(options.features.num_mels, 128);
  EXPECT_EQ(options.input_dropout, 0.2);
  EXPECT_EQ(options.dropout, 0.0);
  EXPECT_EQ(options.activation_dropout, 0.3);
  EXPECT_EQ(options.layer_drop, 0.0);
  EXPECT_EQ(model.reduction, Reduction::kCtcMean);
  EXPECT_PRED2(contains, model.notes.front(), "attention_dropout 0.1 becomes 0");
}

TEST_F(ParakeetFolder, IsRefusedIfItCannotBeBuilt) {
  EXPECT_PRED2(contains, refusal_of("hidden_act", "gelu"), "silu");
  EXPECT_PRED2(contains, refusal_of("conv_kernel_size", 8), "a kernel of 8 frames");
  EXPECT_PRED2(contains, refusal_of("subsampling_conv_kernel_size", 5), "3");
  EXPECT_PRED2(contains, refusal_of("subsampling_factor", 16), "subsampling_factor");
  EXPECT_PRED2(contains, refusal_of("convolution_bias", false), "the same for both");
  json config = released_config();
  config.erase("encoder_config");
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { read(config); }), "no encoder_config");
}

TEST_F(ParakeetFolder, IsRefusedIfItsFeaturesDiffer) {
  folder_.write("preprocessor_config.json", json({{"feature_size", 40}}).dump());
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { read(released_config()); }), "num_mel_bins");
  folder_.write("preprocessor_config.json", json({{"preemphasis", 0.5}}).dump());
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { read(released_config()); }), "0.97");
  folder_.write("preprocessor_config.json", json({{"n_fft", 1024}}).dump());
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { read(released_config()); }),
               "an n_fft of 1024 with a win_length of 400");
}

TEST_F(ParakeetFolder, HasTheTransducerOfItsFile) {
  json config = released_config();
  config["model_type"] = "parakeet_tdt";
  config["decoder_hidden_size"] = 20;
  config["num_decoder_layers"] = 3;
  config["durations"] = {0, 1, 3};
  const HuggingFaceModel model = read(config);
  const auto& options = model.options.as<ParakeetOptions>();
  EXPECT_EQ(options.objective, ParakeetObjective::kTdt);
  EXPECT_EQ(options.transducer.width, 20);
  EXPECT_EQ(options.transducer.joint_width, 20);
  EXPECT_EQ(options.transducer.layers, 3);
  EXPECT_EQ(options.transducer.durations, (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(options.transducer.dropout, 0.0);
  EXPECT_EQ(model.reduction, Reduction::kCtcMean);
  config["model_type"] = "parakeet_rnnt";
  EXPECT_EQ(read(config).reduction, Reduction::kTokens);
  config["model_type"] = "parakeet_tdt";
  config["durations"] = {1, 2};
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { read(config); }), "durations [1, 2]");
}

// As transformers counts the released networks.
TEST(ParakeetPresets, HaveTheParametersOfTheReleasedNetworks) {
  for (const auto& [name, vocabulary, parameters] :
       {std::tuple("parakeet-ctc-0.6b", 1'025, 608'799'745),
        {"parakeet-ctc-1.1b", 1'025, 1'062'540'289},
        {"parakeet-rnnt-0.6b", 1'025, 616'692'225},
        {"parakeet-tdt-0.6b-v2", 1'025, 617'825'926},
        {"parakeet-tdt-0.6b-v3", 8'193, 627'008'134},
        {"parakeet-tdt-1.1b", 1'025, 1'070'435'974}}) {
    const std::unique_ptr<Model> model = ModelOptions::of_preset(name).make(
        {.vocabulary = vocabulary, .blank = vocabulary - 1}, {.device = at::kMeta});
    int64_t count = 0;
    for (const nn::Parameter& parameter : model->parameters().parameters())
      if (!parameter.spec.is_statistic) count += parameter.spec.num_values();
    EXPECT_EQ(count, parameters) << name;
  }
}

TEST(ParakeetSettings, OfAnotherHeadAreRefused) {
  const auto refused = [](const char* preset, auto change) {
    ModelOptions options = ModelOptions::of_preset(preset);
    change(options.as<ParakeetOptions>());
    return message_of<ConfigError>([&] { options.check_effects(ModelOptions::of_preset(preset)); });
  };
  EXPECT_PRED2(contains, refused("parakeet-ctc-0.6b", [](auto& one) { one.transducer.layers = 1; }),
               "objective: rnnt or tdt");
  EXPECT_PRED2(contains, refused("parakeet-ctc-0.6b", [](auto& one) { one.loss_rows = 64; }),
               "loss_rows");
  EXPECT_PRED2(contains,
               refused("parakeet-rnnt-0.6b", [](auto& one) { one.transducer.omega = 0.1; }),
               "objective: tdt");
}

// What was loaded is written with the same values under the same names, and no other.
// A checkpoint of such a network is written all the same.
TEST_F(ParakeetFolder, HasNoConfigIfTransformersHasNoSuchNetwork) {
  ModelOptions options = ModelOptions::of_preset("parakeet-rnnt-0.6b");
  options.as<ParakeetOptions>().transducer.joint_width = 512;
  write_hugging_face_config(folder_.path(), {.model = options, .shape = {.vocabulary = 9}});
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  options.as<ParakeetOptions>().transducer.joint_width = 640;
  write_hugging_face_config(folder_.path(), {.model = options, .shape = {.vocabulary = 9}});
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "config.json"));
}

// Files have null or -1 for a padding that there is not; transformers needs one.
TEST_F(ParakeetFolder, HasTheBlankAsPaddingWhereItsFileHasNone) {
  const data::Tokenizer tokenizer(data::Vocabulary::from_texts({"abc"}), {});
  const DataShape shape{.vocabulary = tokenizer.size(), .blank = tokenizer.blank()};
  for (const json& padding : {json(nullptr), json(-1), json(99), json("x"), json(1)}) {
    SCOPED_TRACE(padding.dump());
    const json source = {{"model_type", "parakeet_tdt"},
                         {"pad_token_id", padding},
                         {"encoder_config", json::object()}};
    write_hugging_face_config(folder_.path(),
                              {.model = ModelOptions::of_preset("parakeet-tdt-0.6b-v3"),
                               .shape = shape,
                               .source = source.dump(),
                               .tokenizer = &tokenizer});
    for (const char* file : {"config.json", "generation_config.json"})
      EXPECT_EQ(json::parse(read_text_file(folder_.path() / file))["pad_token_id"], shape.blank);
    EXPECT_EQ(json::parse(read_text_file(folder_.path() / "tokenizer_config.json"))["pad_token"],
              "<pad>");
  }
}

class ParakeetCopy : public ParakeetFolder, public ::testing::WithParamInterface<const char*> {};

TEST_P(ParakeetCopy, IsWrittenAsItWasRead) {
  const std::filesystem::path from = test::fixture_folder() / "parakeet" / GetParam();
  const HuggingFaceModel found = read_hugging_face(from);
  const DataShape shape = shape_of_hugging_face(from);
  const std::unique_ptr<Model> model = found.options.make(shape, {});
  EXPECT_TRUE(load_hugging_face(from, *model).empty());
  const std::filesystem::path to = folder_.path() / "saved";
  std::filesystem::create_directory(to);
  write_tensor_folder(to, model->named_weights(), 1 << 30);
  write_hugging_face_config(
      to, {.model = found.options, .shape = shape, .source = read_model_config(from)});
  EXPECT_EQ(std::filesystem::file_size(to / "model.safetensors"),
            std::filesystem::file_size(from / "model.safetensors"));
  EXPECT_EQ(json::parse(read_text_file(to / "config.json")),
            json::parse(read_text_file(from / "config.json")));
  const std::unique_ptr<Model> again = read_hugging_face(to).options.make(shape, {});
  EXPECT_TRUE(load_hugging_face(to, *again).empty());
  for (const nn::Parameter& parameter : model->parameters().parameters())
    EXPECT_TRUE(again->parameters().find(parameter.spec.name)->value.equal(parameter.value))
        << parameter.spec.name;
}

INSTANTIATE_TEST_SUITE_P(Heads, ParakeetCopy, ::testing::Values("ctc", "rnnt", "tdt"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace sotto::models
