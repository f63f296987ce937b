#include "sotto/models/whisper/whisper_hugging_face.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "sotto/core/config/json_settings.h"
#include "sotto/core/error.h"
#include "sotto/core/formats/weight_folder.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/data/text/whisper_tokens.h"
#include "sotto/models/hugging_face_format.h"
#include "sotto/models/parts/mask_json.h"
#include "sotto/models/whisper/whisper_options.h"

namespace sotto::models {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kWhisperType = "whisper";
constexpr const char* kWhisperExtractor = "WhisperFeatureExtractor";
constexpr const char* kWhisperProcessor = "WhisperProcessor";
constexpr const char* kTokenTable = "model.decoder.embed_tokens.weight";

// Throws for settings of networks that are built otherwise.
void refuse_other_whispers(const JsonSettings& config) {
  const auto require = [&]<class T>(const char* key, const T& only) {
    if (config.get(key, only) != only) config.refuse(config.shown(key), fmt::format("{}", only));
  };
  require("activation_function", std::string("gelu"));
  require("scale_embedding", false);
  require("tie_word_embeddings", true);
  require("use_weighted_layer_sum", false);
}

void read_whisper_sizes(const JsonSettings& config, WhisperOptions& options) {
  options.features.num_mels = config.get("num_mel_bins", int64_t{80});
  options.positions = config.get("max_source_positions", int64_t{1500});
  options.max_tokens = config.get("max_target_positions", int64_t{448});
  options.width = config.get("d_model", int64_t{384});
  options.layers = config.get("encoder_layers", int64_t{4});
  options.heads = config.get("encoder_attention_heads", int64_t{6});
  options.hidden = config.get("encoder_ffn_dim", int64_t{1536});
  options.decoder_layers = config.get("decoder_layers", int64_t{4});
  options.decoder_heads = config.get("decoder_attention_heads", int64_t{6});
  options.decoder_hidden = config.get("decoder_ffn_dim", int64_t{1536});
}

void read_whisper_numbers(const JsonSettings& config, data::WhisperNumbers& tokens) {
  const data::WhisperNumbers english = data::WhisperNumbers::of_english();
  tokens.vocabulary = config.get("vocab_size", int64_t{51'865});
  // The defaults of transformers are those of English alone.
  tokens.start = config.get("decoder_start_token_id", english.start);
  tokens.end = config.get("eos_token_id", english.end);
  tokens.multilingual = tokens.end != english.end;
}

void read_whisper_training(const JsonSettings& config, WhisperOptions& options,
                           std::vector<std::string>& notes) {
  options.dropout = config.get("dropout", 0.0);
  options.activation_dropout = config.get("activation_dropout", 0.0);
  options.layer_drop = config.get("encoder_layerdrop", 0.0);
  options.decoder_layer_drop = config.get("decoder_layerdrop", 0.0);
  read_span_masks(config, /*is_on=*/false, options);
  if (const double dropout = config.get("attention_dropout", 0.0); dropout > 0.0)
    notes.push_back(fmt::format(
        "attention_dropout {} becomes 0 in training: it is not supported; config.json keeps it",
        dropout));
}

void read_whisper_extractor(const JsonSettings& extractor, WhisperOptions& options) {
  const auto type = extractor.get<std::string>("feature_extractor_type", kWhisperExtractor);
  if (type != kWhisperExtractor)
    extractor.refuse(extractor.shown("feature_extractor_type"), kWhisperExtractor);
  kernels::LogMelOptions& features = options.features;
  features.sample_rate = extractor.get("sampling_rate", int64_t{16'000});
  features.hop = extractor.get("hop_length", int64_t{160});
  features.window = extractor.get("n_fft", int64_t{400});
  if (const int64_t mels = extractor.get("feature_size", int64_t{80}); mels != features.num_mels)
    extractor.refuse(extractor.shown("feature_size"),
                     fmt::format("{}, the num_mel_bins of config.json", features.num_mels));
  if (extractor.get("dither", 0.0) != 0.0) extractor.refuse(extractor.shown("dither"), "0");
  const int64_t samples = extractor.get("chunk_length", int64_t{30}) * features.sample_rate;
  if (samples != options.window_samples())
    extractor.refuse(extractor.shown("chunk_length"),
                     fmt::format("{} samples, the max_source_positions of config.json",
                                 options.window_samples()));
}

HuggingFaceModel read_whisper(const JsonSettings& config, const fs::path& folder) {
  refuse_other_whispers(config);
  HuggingFaceModel model{
      .folder = folder, .options = ModelOptions::of_preset("whisper-tiny"), .notes = {}};
  auto& options = model.options.as<WhisperOptions>();
  read_whisper_sizes(config, options);
  read_whisper_numbers(config, options.tokens);
  read_whisper_training(config, options, model.notes);
  model.reduction = Reduction::kTokens;
  if (const std::optional<JsonSettings> extractor = open_extractor(folder))
    read_whisper_extractor(*extractor, options);
  return model;
}

ImportRules whisper_rules() {
  // The output is the token table.
  return {.ignored = {"proj_out."}, .optional_prefix = "model."};
}

DataShape whisper_shape(const JsonSettings& config, const fs::path& folder) {
  const WeightFolder weights = WeightFolder::open(folder);
  const TensorView* table = weights.find(kTokenTable);
  if (table == nullptr)
    table = weights.find(std::string_view(kTokenTable).substr(std::string_view("model.").size()));
  if (table == nullptr || table->shape.size() != 2)
    throw DataError({.attempted = fmt::format("finding the tokens of {}", folder.string()),
                     .found = fmt::format("no {}", kTokenTable),
                     .expected = "a Whisper network with its decoder"});
  return {.vocabulary = table->shape.front(),
          .blank = config.get("pad_token_id", data::WhisperNumbers::of_english().end)};
}

ordered_json network_json(const WhisperOptions& options) {
  return {{"architectures", {"WhisperForConditionalGeneration"}},
          {"model_type", kWhisperType},
          {"activation_function", "gelu"},
          {"num_mel_bins", options.features.num_mels},
          {"max_source_positions", options.positions},
          {"max_target_positions", options.max_tokens},
          {"d_model", options.width},
          {"encoder_layers", options.layers},
          {"encoder_attention_heads", options.heads},
          {"encoder_ffn_dim", options.hidden},
          {"decoder_layers", options.decoder_layers},
          {"decoder_attention_heads", options.decoder_heads},
          {"decoder_ffn_dim", options.decoder_hidden},
          {"dropout", options.dropout},
          {"activation_dropout", options.activation_dropout},
          {"encoder_layerdrop", options.layer_drop},
          {"decoder_layerdrop", options.decoder_layer_drop},
          {"vocab_size", options.tokens.vocabulary},
          {"decoder_start_token_id", options.tokens.start},
          {"eos_token_id", options.tokens.end}};
}

// Defaults of transformers that are those of other networks.
ordered_json first_settings(const WhisperOptions& options) {
  return {{"attention_dropout", 0.0},
          {"bos_token_id", options.tokens.end},
          {"pad_token_id", options.tokens.end},
          {"begin_suppress_tokens", nullptr}};
}

ordered_json whisper_extractor_json(const WhisperOptions& options) {
  const kernels::LogMelOptions& features = options.features;
  return {{"feature_extractor_type", kWhisperExtractor},
          {"processor_class", kWhisperProcessor},
          {"feature_size", features.num_mels},
          {"sampling_rate", features.sample_rate},
          {"hop_length", features.hop},
          {"n_fft", features.window},
          {"chunk_length", options.window_samples() / features.sample_rate},
          {"n_samples", options.window_samples()},
          {"nb_max_frames", options.positions * WhisperOptions::kSubsampling},
          {"padding_side", "right"},
          {"padding_value", 0.0},
          {"return_attention_mask", false}};
}

int64_t number_in(const ordered_json& config, const char* key, int64_t fallback) {
  const auto found = config.find(key);
  return found != config.end() && found->is_number_integer() ? found->get<int64_t>() : fallback;
}

// What generate() of transformers needs to make prompts.
ordered_json whisper_generation_json(const WhisperOptions& options, const ordered_json& config,
                                     const data::ByteBpe& vocabulary) {
  const data::WhisperTokens tokens(vocabulary);
  ordered_json settings = {{"bos_token_id", number_in(config, "bos_token_id", tokens.end())},
                           {"decoder_start_token_id", tokens.start()},
                           {"eos_token_id", tokens.end()},
                           {"pad_token_id", number_in(config, "pad_token_id", tokens.end())},
                           {"max_length", options.max_tokens},
                           {"is_multilingual", tokens.is_multilingual()},
                           {"no_timestamps_token_id", tokens.no_timestamps()},
                           {"prev_sot_token_id", tokens.previous()},
                           {"return_timestamps", false}};
  if (!tokens.is_multilingual()) return settings;
  ordered_json languages = ordered_json::object();
  for (const auto& [code, number] : tokens.languages())
    languages[fmt::format("<|{}|>", code)] = number;
  settings["lang_to_id"] = std::move(languages);
  settings["task_to_id"] = {{"transcribe", tokens.task(data::WhisperTask::kTranscribe)},
                            {"translate", tokens.task(data::WhisperTask::kTranslate)}};
  return settings;
}

void write_whisper(const fs::path& folder, const HuggingFaceConfig& of) {
  const auto& options = of.model.as<WhisperOptions>();
  ordered_json config = ordered_json::parse(of.source, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || config.value("model_type", "") != kWhisperType)
    config = first_settings(options);
  // A path of the machine that it came from.
  config.erase("_name_or_path");
  config.update(network_json(options));
  config.update(span_mask_json(options));
  if (of.weights) {
    config.erase("torch_dtype");
    config["dtype"] = *of.weights == at::kBFloat16 ? "bfloat16" : "float32";
  }
  write_hub_json(folder / kHubConfig, config);
  const ordered_json extractor = whisper_extractor_json(options);
  write_hub_json(folder / kHubPreprocessor, extractor);
  // What transformers reads since version 5.
  write_hub_json(folder / kHubProcessor,
                 {{"processor_class", kWhisperProcessor}, {"feature_extractor", extractor}});
  const data::ByteBpe* vocabulary = of.tokenizer == nullptr ? nullptr : of.tokenizer->byte_bpe();
  // A tokenizer that came with one writes it itself.
  if (vocabulary != nullptr && vocabulary->content(kHubGeneration) == nullptr)
    write_hub_json(folder / kHubGeneration, whisper_generation_json(options, config, *vocabulary));
}

}  // namespace

HuggingFaceFormat whisper_hugging_face() {
  return {.model_types = {kWhisperType},
          .rules = whisper_rules,
          .read = read_whisper,
          .shape = whisper_shape,
          .write = write_whisper};
}

}  // namespace sotto::models
