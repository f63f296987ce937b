#include "sotto/models/wav2vec2/wav2vec2_hugging_face.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "sotto/core/config/json_settings.h"
#include "sotto/core/error.h"
#include "sotto/core/formats/weight_folder.h"
#include "sotto/models/hugging_face_format.h"
#include "sotto/models/parts/mask_json.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"

namespace sotto::models {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kWav2Vec2Type = "wav2vec2";
constexpr const char* kExtractorType = "Wav2Vec2FeatureExtractor";

nn::Activation activation_of(const JsonSettings& config, const char* key) {
  const auto name = config.get<std::string>(key, "gelu");
  if (name == "gelu") return nn::Activation::kGelu;
  if (name == "relu") return nn::Activation::kRelu;
  if (name == "silu" || name == "swish") return nn::Activation::kSilu;
  config.refuse(config.shown(key), "gelu, relu or silu");
}

void read_convolutions(const JsonSettings& config, Wav2Vec2Options& options) {
  options.conv_widths = config.get("conv_dim", options.conv_widths);
  options.conv_kernels = config.get("conv_kernel", options.conv_kernels);
  options.conv_strides = config.get("conv_stride", options.conv_strides);
  options.conv_bias = config.get("conv_bias", false);
  options.conv_activation = activation_of(config, "feat_extract_activation");
  const auto norm = config.get<std::string>("feat_extract_norm", "group");
  if (norm != "group" && norm != "layer")
    config.refuse(fmt::format("\"feat_extract_norm\": \"{}\"", norm), "group or layer");
  options.conv_norm = value_of(norm, nn::kWaveNormKinds);
}

void read_encoder(const JsonSettings& config, Wav2Vec2Options& options) {
  options.layers = config.get("num_hidden_layers", int64_t{12});
  options.width = config.get("hidden_size", int64_t{768});
  options.heads = config.get("num_attention_heads", int64_t{12});
  options.hidden = config.get("intermediate_size", int64_t{3072});
  options.activation = activation_of(config, "hidden_act");
  options.norm_first = config.get("do_stable_layer_norm", false);
  options.norm_epsilon = config.get("layer_norm_eps", 1e-5);
  options.position_taps = config.get("num_conv_pos_embeddings", int64_t{128});
  options.position_groups = config.get("num_conv_pos_embedding_groups", int64_t{16});
}

Reduction reduction_of(const JsonSettings& config, std::vector<std::string>& notes) {
  const auto name = config.get<std::string>("ctc_loss_reduction", "sum");
  if (name != "sum" && name != "mean")
    config.refuse(config.shown("ctc_loss_reduction"), "sum or mean");
  const bool is_sum = name == "sum";
  notes.push_back(
      fmt::format("the loss of a step is reduction={}, from ctc_loss_reduction {}; "
                  "--set reduction={} changes it",
                  is_sum ? "sum" : "ctc_mean", name, is_sum ? "ctc_mean" : "sum"));
  return is_sum ? Reduction::kSum : Reduction::kCtcMean;
}

void read_training(const JsonSettings& config, Wav2Vec2Options& options,
                   std::vector<std::string>& notes) {
  options.dropout = config.get("hidden_dropout", 0.1);
  options.activation_dropout = config.get("activation_dropout", 0.1);
  options.feature_dropout = config.get("feat_proj_dropout", 0.0);
  options.final_dropout = config.get("final_dropout", 0.1);
  options.layer_drop = config.get("layerdrop", 0.1);
  read_span_masks(config, /*is_on=*/true, options);
  if (const double dropout = config.get("attention_dropout", 0.1); dropout > 0.0)
    notes.push_back(fmt::format(
        "attention_dropout {} becomes 0 in training: it is not supported; config.json keeps it",
        dropout));
  if (!config.get("ctc_zero_infinity", false))
    notes.emplace_back(
        "ctc_zero_infinity becomes true: an utterance with too few frames for its labels counts as "
        "0, with a warning");
  options.freeze_feature_encoder = true;
  notes.emplace_back("the feature encoder is frozen; model.freeze_feature_encoder=false trains it");
}

void read_extractor(const JsonSettings& extractor, Wav2Vec2Options& options) {
  const auto type = extractor.get<std::string>("feature_extractor_type", kExtractorType);
  if (type != kExtractorType)
    extractor.refuse(extractor.shown("feature_extractor_type"), kExtractorType);
  if (extractor.get("feature_size", int64_t{1}) != 1)
    extractor.refuse(extractor.shown("feature_size"), "1: the samples themselves");
  options.normalise = extractor.get("do_normalize", true);
  options.sample_rate = extractor.get("sampling_rate", int64_t{16'000});
}

void refuse_adapters(const JsonSettings& config) {
  if (config.get("add_adapter", false)) config.refuse("\"add_adapter\": true", "false");
  if (config.has("adapter_attn_dim"))
    config.refuse("\"adapter_attn_dim\" is set", "null: attention adapters are not supported");
}

ordered_json network_settings(const Wav2Vec2Options& options) {
  return {{"architectures", {"Wav2Vec2ForCTC"}},
          {"model_type", kWav2Vec2Type},
          {"conv_dim", options.conv_widths},
          {"conv_kernel", options.conv_kernels},
          {"conv_stride", options.conv_strides},
          {"num_feat_extract_layers", options.conv_widths.size()},
          {"conv_bias", options.conv_bias},
          {"feat_extract_norm", name_of(options.conv_norm, nn::kWaveNormKinds)},
          {"feat_extract_activation", name_of(options.conv_activation, nn::kActivations)},
          {"num_conv_pos_embeddings", options.position_taps},
          {"num_conv_pos_embedding_groups", options.position_groups},
          {"num_hidden_layers", options.layers},
          {"hidden_size", options.width},
          {"num_attention_heads", options.heads},
          {"intermediate_size", options.hidden},
          {"hidden_act", name_of(options.activation, nn::kActivations)},
          {"do_stable_layer_norm", options.norm_first},
          {"layer_norm_eps", options.norm_epsilon},
          {"hidden_dropout", options.dropout},
          {"activation_dropout", options.activation_dropout},
          {"feat_proj_dropout", options.feature_dropout},
          {"final_dropout", options.final_dropout},
          {"layerdrop", options.layer_drop}};
}

HuggingFaceModel read_wav2vec2(const JsonSettings& config, const fs::path& folder) {
  refuse_adapters(config);
  HuggingFaceModel model{
      .folder = folder, .options = ModelOptions::of_preset("wav2vec2-base"), .notes = {}};
  auto& options = model.options.as<Wav2Vec2Options>();
  read_convolutions(config, options);
  read_encoder(config, options);
  read_training(config, options, model.notes);
  model.reduction = reduction_of(config, model.notes);
  if (const std::optional<JsonSettings> extractor = open_extractor(folder))
    read_extractor(*extractor, options);
  return model;
}

ImportRules wav2vec2_rules() {
  // Without masks the network has no vector for masked frames; files may still have it.
  return {.may_lack = {"lm_head.", "wav2vec2.masked_spec_embed"},
          .may_leave = {"quantizer.", "project_q.", "project_hid.", "lm_head.",
                        "wav2vec2.masked_spec_embed", "masked_spec_embed"},
          .optional_prefix = "wav2vec2."};
}

DataShape wav2vec2_shape(const JsonSettings& config, const fs::path& folder) {
  const WeightFolder weights = WeightFolder::open(folder);
  const TensorView* head = weights.find("lm_head.bias");
  if (head != nullptr && head->shape.size() == 1)
    return {.vocabulary = head->shape.front(), .blank = config.get("pad_token_id", int64_t{0})};
  throw DataError({.attempted = fmt::format("finding the head of {}", folder.string()),
                   .found = "no lm_head.bias",
                   .expected = "a model with a CTC head",
                   .hint = "A pretrained checkpoint has none yet: `sotto train` adds one."});
}

void write_wav2vec2(const fs::path& folder, const HuggingFaceConfig& of) {
  const auto& options = of.model.as<Wav2Vec2Options>();
  ordered_json config = ordered_json::parse(of.source, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) config = {{"attention_dropout", 0.0}};
  // A path of the machine that it came from.
  config.erase("_name_or_path");
  config.update(network_settings(options));
  config.update({{"vocab_size", of.shape.vocabulary}, {"pad_token_id", of.shape.blank}});
  config.update(span_mask_json(options));
  if (of.reduction) {
    config["ctc_loss_reduction"] = *of.reduction == Reduction::kSum ? "sum" : "mean";
    config["ctc_zero_infinity"] = true;
  }
  if (of.weights) {
    config.erase("torch_dtype");
    config["dtype"] = *of.weights == at::kBFloat16 ? "bfloat16" : "float32";
  }
  write_hub_json(folder / kHubConfig, config);
  write_hub_json(folder / kHubPreprocessor,
                 {{"feature_extractor_type", kExtractorType},
                  {"feature_size", 1},
                  {"sampling_rate", options.sample_rate},
                  {"do_normalize", options.normalise},
                  {"padding_side", "right"},
                  {"padding_value", 0.0},
                  {"return_attention_mask", options.conv_norm == nn::WaveNormKind::kLayer}});
}

}  // namespace

HuggingFaceFormat wav2vec2_hugging_face() {
  return {.model_types = {kWav2Vec2Type},
          .rules = wav2vec2_rules,
          .read = read_wav2vec2,
          .shape = wav2vec2_shape,
          .write = write_wav2vec2};
}

}  // namespace sotto::models
