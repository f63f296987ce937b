// `.nemo` archives: what their settings become, and what is refused by name.
#include "sotto/models/hub/nemo.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/models/parakeet/parakeet_options.h"
#include "support/nemo_fixture.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::models {
namespace {

using nlohmann::json;
using test::contains;
using test::edited_nemo;
using test::message_of;
using test::nemo_fixture;
using test::NemoEdit;

class NemoFile : public ::testing::Test {
 protected:
  HuggingFaceModel read(const std::string& name, const NemoEdit& edit) {
    return read_nemo(edited_nemo(folder_, name, edit));
  }
  template <class Exception>
  std::string refusal_of(const std::string& name, const NemoEdit& edit) {
    const auto path = edited_nemo(folder_, name, edit);
    const std::string message = message_of<Exception>([&] { read_nemo(path); });
    EXPECT_PRED2(contains, message, path.string());
    return message;
  }
  // Refuses a setting that is changed, such as "encoder" "subsampling".
  std::string refusal_of(const std::string& name, const json::json_pointer& key,
                         const json& value) {
    return refusal_of<ConfigError>(name, {.config = [&](json& config) { config[key] = value; }});
  }

  test::TempFolder folder_;
};

TEST_F(NemoFile, HasTheNetworkOfItsSettings) {
  const HuggingFaceModel model = read_nemo(nemo_fixture("tdt"));
  const auto& options = model.options.as<ParakeetOptions>();
  EXPECT_EQ(options.objective, ParakeetObjective::kTdt);
  EXPECT_EQ(options.features.num_mels, 16);
  EXPECT_EQ(options.features.window, 400);
  EXPECT_EQ(options.features.hop, 160);
  EXPECT_EQ(options.layers, 2);
  EXPECT_EQ(options.width, 24);
  EXPECT_EQ(options.heads, 4);
  EXPECT_EQ(options.hidden, 48);
  EXPECT_EQ(options.kernel, 9);
  EXPECT_EQ(options.subsampling_channels, 6);
  EXPECT_FALSE(options.biases);
  EXPECT_FALSE(options.scale_input);
  EXPECT_EQ(options.dropout, 0.1);
  EXPECT_EQ(options.activation_dropout, 0.1);
  EXPECT_EQ(options.input_dropout, 0.1);
  EXPECT_EQ(options.transducer.width, 20);
  EXPECT_EQ(options.transducer.joint_width, 20);
  EXPECT_EQ(options.transducer.layers, 2);
  EXPECT_EQ(options.transducer.dropout, 0.2);
  EXPECT_EQ(options.transducer.joint_dropout, 0.2);
  EXPECT_FALSE(options.transducer.train_start);
  EXPECT_EQ(options.transducer.durations, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(options.transducer.sigma, 0.02);
  EXPECT_EQ(options.transducer.omega, 0.1);
  EXPECT_EQ(model.reduction, Reduction::kTokens);
  const DataShape shape = shape_of_nemo(nemo_fixture("tdt"));
  EXPECT_EQ(shape.vocabulary, 12);
  EXPECT_EQ(shape.blank, 11);
  EXPECT_EQ(read_nemo(nemo_fixture("rnnt")).options.as<ParakeetOptions>().objective,
            ParakeetObjective::kRnnt);
  EXPECT_EQ(read_nemo(nemo_fixture("ctc")).options.as<ParakeetOptions>().objective,
            ParakeetObjective::kCtc);
}

TEST_F(NemoFile, HasTheMasksOfItsRecipe) {
  const auto masks_of = [&](const NemoEdit& edit) {
    return read("ctc", edit).options.as<ParakeetOptions>().spec_augment;
  };
  const nn::SpecAugmentOptions masks = masks_of({});
  EXPECT_EQ(masks.frequency_masks, 2);
  EXPECT_EQ(masks.frequency_width, 7);
  EXPECT_EQ(masks.time_masks, 10);
  EXPECT_EQ(masks.time_share, 0.05);
  // The share alone limits it.
  EXPECT_GE(masks.time_width, 100'000);
  const nn::SpecAugmentOptions frames =
      masks_of({.config = [](json& config) { config["spec_augment"]["time_width"] = 70; }});
  EXPECT_EQ(frames.time_width, 70);
  EXPECT_EQ(frames.time_share, 1.0);
  const nn::SpecAugmentOptions none =
      masks_of({.config = [](json& config) { config.erase("spec_augment"); }});
  EXPECT_EQ(none.frequency_masks, 0);
  EXPECT_EQ(none.time_masks, 0);
}

TEST_F(NemoFile, ItsReductionIsOursUnderAnotherName) {
  for (const auto& [name, reduction] : {std::pair("mean_volume", Reduction::kTokens),
                                        {"mean_batch", Reduction::kUtterances},
                                        {"mean", Reduction::kCtcMean},
                                        {"sum", Reduction::kSum}}) {
    const NemoEdit edit{.config = [&](json& config) {
      config["rnnt_reduction"] = name;
      config["ctc_reduction"] = name;
    }};
    EXPECT_EQ(read("rnnt", edit).reduction, reduction);
    EXPECT_EQ(read("ctc", edit).reduction, reduction);
  }
  EXPECT_EQ(
      read("rnnt", {.config = [](json& config) { config.erase("rnnt_reduction"); }}).reduction,
      Reduction::kUtterances);
  EXPECT_PRED2(contains, refusal_of("rnnt", "/rnnt_reduction"_json_pointer, "median"),
               "\"rnnt_reduction\": \"median\"");
}

// Each by its name and value.
TEST_F(NemoFile, SettingsOfOtherNetworksAreRefused) {
  struct Refused {
    const char* key;
    json value;
    const char* expected;
  };
  const std::vector<Refused> refused = {
      {"/encoder/subsampling", "striding", "\"subsampling\": \"striding\""},
      {"/encoder/subsampling", "stacking", "dw_striding"},
      {"/encoder/self_attention_model", "rel_pos_local_attn", "rel_pos_local_attn"},
      {"/encoder/att_context_size", {128, 128}, "[128,128], for streaming"},
      {"/encoder/att_context_size", {{70, 13}, {70, 6}}, "for streaming"},
      {"/encoder/att_context_style", "chunked_limited", "chunked_limited"},
      {"/encoder/conv_context_size", "causal", "\"causal\", for streaming"},
      {"/encoder/causal_downsampling", true, "causal_downsampling"},
      {"/encoder/conv_norm_type", "layer_norm", "layer_norm"},
      {"/encoder/untie_biases", false, "untie_biases"},
      {"/encoder/reduction", "pooling", "pooling"},
      {"/encoder/stochastic_depth_drop_prob", 0.1, "stochastic_depth_drop_prob"},
      {"/encoder/feat_in", 80, "\"feat_in\": 80"},
      {"/encoder/feat_out", 8, "feat_out"},
      {"/encoder/n_heads", 5, "heads"},
      {"/encoder/n_layers", "many", "\"n_layers\": \"many\""},
      {"/encoder/new_setting", 3, "\"new_setting\": 3"},
      {"/encoder/ff_expansion_factor", int64_t{1} << 62, "hidden"},
      {"/encoder/_target_", "nemo.collections.asr.modules.SqueezeformerEncoder",
       "ConformerEncoder"},
      {"/preprocessor/normalize", "all_features", "per_feature"},
      {"/preprocessor/window", "hamming", "hann"},
      {"/preprocessor/n_fft", 1024, "512"},
      {"/preprocessor/preemph", 0.5, "0.97"},
      {"/preprocessor/log", false, "\"log\": false"},
      {"/preprocessor/frame_splicing", 2, "frame_splicing"},
      {"/tokenizer/type", "agg", "\"agg\", several tokenizers"},
      {"/tokenizer/type", "wpe", "\"wpe\", a WordPiece vocabulary"},
      {"/tokenizer", nullptr, "no tokenizer, as in networks of characters"},
      {"/aux_ctc", {{"ctc_loss_weight", 0.3}}, "a hybrid network"},
      {"/target", "nemo.collections.asr.models.EncDecMultiTaskModel", "EncDecMultiTaskModel"},
      {"/encoder", nullptr, "no encoder"},
      {"/joint/jointnet/encoder_hidden", 512, "\"encoder_hidden\": 512"},
      {"/joint/jointnet/pred_hidden", 640, "\"pred_hidden\": 640"},
      {"/joint/jointnet/activation", "tanh", "tanh"},
      {"/joint/num_extra_outputs", 5, "\"num_extra_outputs\": 5"},
      {"/decoder/_target_", "a.StatelessTransducerDecoder", "RNNTDecoder"},
      {"/decoder/blank_as_pad", false, "blank_as_pad"},
      {"/decoder/normalization_mode", "layer", "normalization_mode"},
      {"/decoder/prednet/rnn_hidden_size", 30, "rnn_hidden_size"},
      {"/loss/loss_name", "multiblank_rnnt", "multiblank_rnnt"},
      {"/loss/tdt_kwargs/fastemit_lambda", 0.001, "\"fastemit_lambda\": 0.001"},
      {"/loss/tdt_kwargs/clamp", 1.0, "\"clamp\": 1.0"},
      {"/loss/tdt_kwargs/durations", {1, 2, 4, 8}, "durations"}};
  for (const Refused& each : refused)
    EXPECT_PRED2(contains, refusal_of("tdt", json::json_pointer(each.key), each.value),
                 each.expected)
        << each.key;
  EXPECT_PRED2(contains, refusal_of("ctc", "/decoder/_target_"_json_pointer, "a.LinearDecoder"),
               "ConvASRDecoder");
  EXPECT_PRED2(contains,
               refusal_of("rnnt", "/loss/warprnnt_numba_kwargs/new_setting"_json_pointer, 3),
               "\"new_setting\": 3");
}

// Settings that do not change a network, and those that are off.
TEST_F(NemoFile, OtherSettingsAreIgnored) {
  const NemoEdit edit{.config = [](json& config) {
    config["optim"]["sched"] = {{"name", "CosineAnnealing"}};
    config["trainer"] = {{"devices", 8}};
    config["encoder"]["pos_emb_max_len"] = 7000;
    config["encoder"]["use_pytorch_sdpa"] = true;
    config["encoder"]["new_setting"] = false;
    config["encoder"]["conv_context_size"] = {4, 4};
    config["preprocessor"]["dither"] = 1e-3;
    config["loss"]["tdt_kwargs"]["clamp"] = 0;
    config.erase("target");
  }};
  EXPECT_EQ(read("tdt", edit).options.as<ParakeetOptions>().layers, 2);
}

TEST_F(NemoFile, SaysWhatIsNotSupportedInTraining) {
  const NemoEdit edit{.config = [](json& config) {
    config["encoder"]["dropout_emb"] = 0.2;
    config["variational_noise"] = {{"std", 0.1}};
    config["decoding"]["greedy"]["max_symbols"] = 5;
    config["spec_augment"]["rect_masks"] = 3;
  }};
  std::string notes;
  for (const std::string& note : read("tdt", edit).notes) notes += note + "\n";
  for (const char* part : {"dropout_emb 0.2 becomes 0", "dropout_att 0.1 becomes 0",
                           "variational_noise", "decode.max_symbols=5", "rect_masks"})
    EXPECT_PRED2(contains, notes, part);
}

TEST_F(NemoFile, OtherWeightsAreRefusedByTheirNames) {
  const auto refused = [&](const char* name, auto change) {
    return refusal_of<DataError>(name, {.weights = change});
  };
  using Entries = std::vector<SafetensorsEntry>;
  const auto named = [](const std::string& name) {
    return [name](const SafetensorsEntry& entry) { return entry.name == name; };
  };
  const std::string norm = "encoder.layers.1.norm_out.weight";
  EXPECT_PRED2(contains, refused("ctc", [&](Entries& e) { std::erase_if(e, named(norm)); }),
               norm + " [24] is not in it");
  const std::string extra = refused("ctc", [&](Entries& e) {
    e.push_back(*std::ranges::find_if(e, named(norm)));
    e.back().name = "encoder.layers.2.norm_out.weight";
  });
  EXPECT_PRED2(contains, extra, "encoder.layers.2.norm_out.weight is only in it");
  const std::string shape = refused("ctc", [&](Entries& e) {
    auto& entry = *std::ranges::find_if(e, named(norm));
    entry.shape = {23};
    entry.bytes = entry.bytes.first(92);
  });
  EXPECT_PRED2(contains, shape, norm + " is [23] there and [24] here");
  const std::string joint = "joint.joint_net.2.bias";
  const std::string rows = refused("tdt", [&](Entries& e) {
    auto& entry = *std::ranges::find_if(e, named(joint));
    entry.shape = {15};
    entry.bytes = entry.bytes.first(60);
  });
  EXPECT_PRED2(contains, rows, joint + " is [15] there and [16] here");
  EXPECT_PRED2(
      contains,
      refused("tdt",
              [&](Entries& e) { std::erase_if(e, named("decoder.prediction.embed.weight")); }),
      "no decoder.prediction.embed.weight");
}

TEST_F(NemoFile, ATokenizerOfAnotherSizeIsRefused) {
  const NemoEdit edit{.members = [](std::vector<NemoContent::Member>& members) {
    for (NemoContent::Member& member : members)
      if (member.name.ends_with(".model")) member.content += member.content;
  }};
  EXPECT_PRED2(contains, refusal_of<DataError>("ctc", edit),
               "22 pieces for a network with 12 entries");
  const NemoEdit broken{.members = [](std::vector<NemoContent::Member>& members) {
    for (NemoContent::Member& member : members) member.content = "\xff\xff\xff";
  }};
  EXPECT_PRED2(contains, refusal_of<DataError>("ctc", broken),
               "it is damaged, or of another format");
}

// A joint network without dropout has one layer less before its last.
TEST_F(NemoFile, TheLastLayerOfAJointWithoutDropoutHasAnotherNumber) {
  const NemoEdit edit{.config = [](json& config) { config["joint"]["jointnet"]["dropout"] = 0.0; },
                      .weights =
                          [](std::vector<SafetensorsEntry>& entries) {
                            for (SafetensorsEntry& entry : entries)
                              if (entry.name.starts_with("joint.joint_net.2."))
                                entry.name.replace(0, 18, "joint.joint_net.1.");
                          }};
  const auto path = edited_nemo(folder_, "tdt", edit);
  const HuggingFaceModel found = read_nemo(path);
  EXPECT_EQ(found.options.as<ParakeetOptions>().transducer.joint_dropout, 0.0);
  const std::unique_ptr<Model> model = found.options.make(shape_of_nemo(path), {});
  EXPECT_TRUE(load_hugging_face(path, *model).empty());
}

TEST_F(NemoFile, AFolderWithOneIsThatFile) {
  folder_.write("model/x.nemo", "");
  const auto folder = folder_.path() / "model";
  EXPECT_EQ(find_model_folder(folder.string()), folder / "x.nemo");
  folder_.write("model/y.nemo", "");
  EXPECT_EQ(find_model_folder(folder.string()), folder);
  std::filesystem::remove(folder / "y.nemo");
  folder_.write("model/config.json", "{}");
  EXPECT_EQ(find_model_folder(folder.string()), folder);
}

}  // namespace
}  // namespace sotto::models
