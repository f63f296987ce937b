#include "sotto/models/hugging_face.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sotto/core/config.h"
#include "sotto/core/error.h"
#include "sotto/core/hub_cache.h"
#include "sotto/core/json_object.h"
#include "sotto/core/output_file.h"
#include "sotto/core/text_file.h"
#include "sotto/core/weight_folder.h"

namespace sotto::models {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kConfig = "config.json";
constexpr const char* kPreprocessor = "preprocessor_config.json";
constexpr const char* kModelType = "wav2vec2";

json read_json(const fs::path& path) {
  return parse_json_object(read_text_file(path),
                           {.path = path,
                            .part = "it",
                            .expected = "the settings of a model, as transformers writes them"});
}

// What an entry must be to become a T.
template <class T>
struct Entry;
template <>
struct Entry<bool> {
  static constexpr const char* kExpected = "true or false";
  static bool holds(const json& value) { return value.is_boolean(); }
};
template <>
struct Entry<int64_t> {
  static constexpr const char* kExpected = "a whole number";
  static bool holds(const json& value) { return value.is_number_integer(); }
};
template <>
struct Entry<double> {
  static constexpr const char* kExpected = "a number";
  static bool holds(const json& value) { return value.is_number(); }
};
template <>
struct Entry<std::string> {
  static constexpr const char* kExpected = "a word";
  static bool holds(const json& value) { return value.is_string(); }
};
template <>
struct Entry<std::vector<int64_t>> {
  static constexpr const char* kExpected = "a list of whole numbers";
  static bool holds(const json& value) {
    return value.is_array() && std::ranges::all_of(value, Entry<int64_t>::holds);
  }
};

// The entries of a config.json, each with what transformers takes where it is absent.
class Config {
 public:
  explicit Config(const fs::path& path) : path_(path), values_(read_json(path)) {}

  template <class T>
  T get(const char* key, T fallback) const {
    const auto found = values_.find(key);
    if (found == values_.end() || found->is_null()) return fallback;
    if (!Entry<T>::holds(*found))
      refuse(fmt::format("\"{}\": {}", key, shown(*found)), Entry<T>::kExpected);
    return found->get<T>();
  }

  bool has(const char* key) const {
    const auto found = values_.find(key);
    return found != values_.end() && !found->is_null();
  }

  nn::Activation activation(const char* key) const {
    const auto name = get<std::string>(key, "gelu");
    if (name == "gelu") return nn::Activation::kGelu;
    if (name == "relu") return nn::Activation::kRelu;
    if (name == "silu" || name == "swish") return nn::Activation::kSilu;
    refuse(fmt::format("\"{}\": \"{}\"", key, name), "gelu, relu or silu");
  }

  [[noreturn]] void refuse(const std::string& found, const std::string& expected) const {
    throw ConfigError({.attempted = fmt::format("taking the model of {}", path_.string()),
                       .found = found,
                       .expected = expected});
  }

 private:
  fs::path path_;
  json values_;
};

void read_convolutions(const Config& config, Wav2Vec2Options& options) {
  options.conv_widths = config.get("conv_dim", options.conv_widths);
  options.conv_kernels = config.get("conv_kernel", options.conv_kernels);
  options.conv_strides = config.get("conv_stride", options.conv_strides);
  options.conv_bias = config.get("conv_bias", false);
  options.conv_activation = config.activation("feat_extract_activation");
  const auto norm = config.get<std::string>("feat_extract_norm", "group");
  if (norm != "group" && norm != "layer")
    config.refuse(fmt::format("\"feat_extract_norm\": \"{}\"", norm), "group or layer");
  options.conv_norm = value_of(norm, nn::kWaveNormKinds);
}

void read_encoder(const Config& config, Wav2Vec2Options& options) {
  options.layers = config.get("num_hidden_layers", int64_t{12});
  options.width = config.get("hidden_size", int64_t{768});
  options.heads = config.get("num_attention_heads", int64_t{12});
  options.hidden = config.get("intermediate_size", int64_t{3072});
  options.activation = config.activation("hidden_act");
  options.norm_first = config.get("do_stable_layer_norm", false);
  options.norm_epsilon = config.get("layer_norm_eps", 1e-5);
  options.position_taps = config.get("num_conv_pos_embeddings", int64_t{128});
  options.position_groups = config.get("num_conv_pos_embedding_groups", int64_t{16});
}

void read_training(const Config& config, Wav2Vec2Options& options,
                   std::vector<std::string>& notes) {
  options.dropout = config.get("hidden_dropout", 0.1);
  options.activation_dropout = config.get("activation_dropout", 0.1);
  options.feature_dropout = config.get("feat_proj_dropout", 0.0);
  options.final_dropout = config.get("final_dropout", 0.1);
  options.layer_drop = config.get("layerdrop", 0.1);
  options.mask = config.get("apply_spec_augment", true);
  options.mask_time_probability = config.get("mask_time_prob", 0.05);
  options.mask_time_length = config.get("mask_time_length", int64_t{10});
  options.mask_time_min = config.get("mask_time_min_masks", int64_t{2});
  options.mask_feature_probability = config.get("mask_feature_prob", 0.0);
  options.mask_feature_length = config.get("mask_feature_length", int64_t{10});
  options.mask_feature_min = config.get("mask_feature_min_masks", int64_t{0});
  if (const double dropout = config.get("attention_dropout", 0.1); dropout > 0.0)
    notes.push_back(
        fmt::format("attention_dropout {} becomes 0: attention has none here", dropout));
  options.freeze_feature_encoder = true;
  notes.emplace_back("the feature encoder is frozen; model.freeze_feature_encoder=false trains it");
}

void refuse_what_is_not_here(const Config& config) {
  const auto type = config.get<std::string>("model_type", "");
  if (type != kModelType)
    config.refuse(fmt::format("\"model_type\": \"{}\"", type), "wav2vec2 (XLS-R is of that type)");
  if (config.get("add_adapter", false)) config.refuse("\"add_adapter\": true", "false");
  if (config.has("adapter_attn_dim"))
    config.refuse("\"adapter_attn_dim\" is set", "null: attention adapters are not here");
}

void write_json(const fs::path& path, const nlohmann::ordered_json& values) {
  const std::string text = values.dump(2) + "\n";
  write_file(path, std::as_bytes(std::span(text)));
}

}  // namespace

fs::path find_model_folder(std::string_view name) {
  if (fs::is_directory(name)) return name;
  return find_hub_folder(name);
}

HuggingFaceModel read_hugging_face(const fs::path& folder) {
  const Config config(folder / kConfig);
  refuse_what_is_not_here(config);
  HuggingFaceModel model{
      .folder = folder, .options = ModelOptions::of_preset("wav2vec2-base"), .notes = {}};
  Wav2Vec2Options& options = model.options.wav2vec2;
  read_convolutions(config, options);
  read_encoder(config, options);
  read_training(config, options, model.notes);
  if (fs::exists(folder / kPreprocessor)) {
    const Config preprocessor(folder / kPreprocessor);
    options.normalise = preprocessor.get("do_normalize", true);
    options.sample_rate = preprocessor.get("sampling_rate", int64_t{16'000});
  }
  try {
    // Through the reader of settings, which knows what each may be.
    model.options = read_options<ModelOptions>(write_options(model.options));
  } catch (const ConfigError& error) {
    config.refuse(error.what(), "a network that can be built");
  }
  return model;
}

ImportRules hugging_face_rules() {
  return {.may_lack = {"lm_head.", "wav2vec2.masked_spec_embed"},
          .may_leave = {"quantizer.", "project_q.", "project_hid.", "lm_head."},
          .optional_prefix = "wav2vec2."};
}

std::vector<std::string> load_hugging_face(const fs::path& folder, Model& model) {
  return notes_of(
      import_tensors(WeightFolder::open(folder), model.named_weights(), hugging_face_rules()));
}

DataShape shape_of_hugging_face(const fs::path& folder) {
  const Config config(folder / kConfig);
  const WeightFolder weights = WeightFolder::open(folder);
  const TensorView* head = weights.find("lm_head.bias");
  if (head != nullptr && head->shape.size() == 1)
    return {.vocabulary = head->shape.front(), .blank = config.get("pad_token_id", int64_t{0})};
  throw DataError(
      {.attempted = fmt::format("finding the head of {}", folder.string()),
       .found = "no lm_head.bias",
       .expected = "a model with a CTC head",
       .hint = "A checkpoint of pretraining has none yet: `sotto train` gives it one."});
}

void write_hugging_face_config(const fs::path& folder, const ModelOptions& model,
                               const DataShape& shape) {
  if (model.family != Family::kWav2Vec2) return;
  const Wav2Vec2Options& options = model.wav2vec2;
  write_json(folder / kConfig,
             {{"architectures", {"Wav2Vec2ForCTC"}},
              {"model_type", kModelType},
              {"vocab_size", shape.vocabulary},
              {"pad_token_id", shape.blank},
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
              {"attention_dropout", 0.0},
              {"feat_proj_dropout", options.feature_dropout},
              {"final_dropout", options.final_dropout},
              {"layerdrop", options.layer_drop},
              {"apply_spec_augment", options.mask},
              {"mask_time_prob", options.mask_time_probability},
              {"mask_time_length", options.mask_time_length},
              {"mask_time_min_masks", options.mask_time_min},
              {"mask_feature_prob", options.mask_feature_probability},
              {"mask_feature_length", options.mask_feature_length},
              {"mask_feature_min_masks", options.mask_feature_min}});
  write_json(folder / kPreprocessor,
             {{"feature_extractor_type", "Wav2Vec2FeatureExtractor"},
              {"feature_size", 1},
              {"sampling_rate", options.sample_rate},
              {"do_normalize", options.normalise},
              {"padding_side", "right"},
              {"padding_value", 0.0},
              {"return_attention_mask", options.conv_norm == nn::WaveNormKind::kLayer}});
}

}  // namespace sotto::models
