#include "sotto/models/parakeet/parakeet_hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sotto/core/config/json_settings.h"
#include "sotto/core/error.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/formats/weight_folder.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/models/hugging_face_format.h"
#include "sotto/models/parakeet/parakeet_options.h"

namespace sotto::models {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Names of each objective in config.json.
struct ObjectiveNames {
  std::string_view type;
  std::string_view architecture;
  ParakeetObjective objective;
};
constexpr std::array kObjectiveNames = {
    ObjectiveNames{"parakeet_ctc", "ParakeetForCTC", ParakeetObjective::kCtc},
    ObjectiveNames{"parakeet_rnnt", "ParakeetForRNNT", ParakeetObjective::kRnnt},
    ObjectiveNames{"parakeet_tdt", "ParakeetForTDT", ParakeetObjective::kTdt}};

constexpr int64_t kMaxSymbols = 10;
constexpr const char* kEncoderKey = "encoder_config";
constexpr const char* kParakeetExtractor = "ParakeetFeatureExtractor";
constexpr const char* kParakeetProcessor = "ParakeetProcessor";
constexpr const char* kTokenizersFile = "tokenizer.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr double kPreemphasis = 0.97;

JsonSettings encoder_settings(const JsonSettings& config) {
  if (!config.has(kEncoderKey))
    config.refuse("no encoder_config", "the settings of the encoder in it");
  return {config.values().at(kEncoderKey), "reading the encoder_config of a Parakeet network"};
}

// Throws for settings of networks that are built otherwise.
void refuse_other_encoders(const JsonSettings& encoder) {
  const auto require = [&]<class T>(const char* key, const T& only) {
    if (encoder.get(key, only) != only) encoder.refuse(encoder.shown(key), fmt::format("{}", only));
  };
  require("hidden_act", std::string("silu"));
  require("subsampling_conv_kernel_size", int64_t{3});
  require("subsampling_conv_stride", int64_t{2});
  if (encoder.get("attention_bias", true) != encoder.get("convolution_bias", true))
    encoder.refuse(fmt::format("{} and {}", encoder.shown("attention_bias"),
                               encoder.shown("convolution_bias")),
                   "the same for both");
}

void read_encoder_shape(const JsonSettings& encoder, ParakeetOptions& options) {
  options.features.num_mels = encoder.get("num_mel_bins", int64_t{80});
  options.subsampling_factor = encoder.get("subsampling_factor", int64_t{8});
  options.subsampling_channels = encoder.get("subsampling_conv_channels", int64_t{256});
  options.scale_input = encoder.get("scale_input", true);
  options.layers = encoder.get("num_hidden_layers", int64_t{24});
  options.width = encoder.get("hidden_size", int64_t{1024});
  options.heads = encoder.get("num_attention_heads", int64_t{8});
  options.hidden = encoder.get("intermediate_size", int64_t{4096});
  options.kernel = encoder.get("conv_kernel_size", int64_t{9});
  options.biases = encoder.get("attention_bias", true);
}

// As transformers trains: results of a block's parts have no dropout there.
void read_encoder_dropout(const JsonSettings& encoder, ParakeetOptions& options,
                          std::vector<std::string>& notes) {
  options.input_dropout = encoder.get("dropout", 0.1);
  options.dropout = 0.0;
  options.activation_dropout = encoder.get("activation_dropout", 0.1);
  options.layer_drop = encoder.get("layerdrop", 0.1);
  for (const auto& [key, usual] :
       {std::pair("attention_dropout", 0.1), {"dropout_positions", 0.0}}) {
    if (const double dropout = encoder.get(key, usual); dropout > 0.0)
      notes.push_back(fmt::format(
          "{} {} becomes 0 in training: it is not supported; config.json keeps it", key, dropout));
  }
  notes.emplace_back(
      "batch norms keep their statistics; model.convolution_norm=batch trains them, and the split "
      "of a step into micro-batches then changes the result");
}

Reduction parakeet_reduction(const JsonSettings& config, std::vector<std::string>& notes) {
  const auto name = config.get<std::string>("ctc_loss_reduction", "mean");
  if (name != "sum" && name != "mean")
    config.refuse(config.shown("ctc_loss_reduction"), "sum or mean");
  if (!config.get("ctc_zero_infinity", true))
    notes.emplace_back(
        "ctc_zero_infinity becomes true: an utterance with too few frames for its labels counts as "
        "0, with a warning");
  return name == "sum" ? Reduction::kSum : Reduction::kCtcMean;
}

void read_parakeet_extractor(const JsonSettings& extractor, kernels::LogMelOptions& features) {
  const auto type = extractor.get<std::string>("feature_extractor_type", kParakeetExtractor);
  if (type != kParakeetExtractor)
    extractor.refuse(extractor.shown("feature_extractor_type"), kParakeetExtractor);
  features.sample_rate = extractor.get("sampling_rate", int64_t{16'000});
  features.hop = extractor.get("hop_length", int64_t{160});
  features.window = extractor.get("win_length", int64_t{400});
  if (const int64_t mels = extractor.get("feature_size", int64_t{80}); mels != features.num_mels)
    extractor.refuse(extractor.shown("feature_size"),
                     fmt::format("{}, the num_mel_bins of the encoder", features.num_mels));
  const auto points = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(features.window)));
  if (extractor.get("n_fft", int64_t{512}) != points)
    extractor.refuse(fmt::format("an n_fft of {} with a win_length of {}",
                                 extractor.get("n_fft", int64_t{512}), features.window),
                     fmt::format("{}, the next power of two", points));
  if (extractor.get("preemphasis", kPreemphasis) != kPreemphasis)
    extractor.refuse(extractor.shown("preemphasis"), "0.97");
}

// Throws for networks that have a transducer and a CTC head.
void refuse_hybrids(const JsonSettings& config) {
  for (const char* key : {"aux_ctc", "ctc_loss_weight", "aux_ctc_weight"}) {
    if (!config.has(key) || config.values().at(key) == 0.0) continue;
    config.refuse(
        fmt::format("\"{}\", a setting of hybrid networks, which have a transducer and a CTC head",
                    key),
        "a network with one head: parakeet_ctc, parakeet_rnnt or parakeet_tdt");
  }
}

ParakeetObjective objective_of(const JsonSettings& config) {
  const auto type = config.get<std::string>("model_type", "");
  return std::ranges::find(kObjectiveNames, type, &ObjectiveNames::type)->objective;
}

void read_transducer(const JsonSettings& config, ParakeetOptions& options,
                     std::vector<std::string>& notes) {
  if (config.get<std::string>("hidden_act", "relu") != "relu")
    config.refuse(config.shown("hidden_act"), "relu");
  TransducerOptions& transducer = options.transducer;
  transducer.width = transducer.joint_width = config.get("decoder_hidden_size", int64_t{640});
  transducer.layers = config.get("num_decoder_layers", int64_t{2});
  transducer.dropout = transducer.joint_dropout = 0.0;
  notes.emplace_back(
      "the prediction and joint networks have no dropout, as in transformers; "
      "model.transducer.dropout=0.2 and model.transducer.joint_dropout=0.2 are those of NeMo");
  if (options.has_durations() && config.has("durations"))
    transducer.durations = config.get<std::vector<int64_t>>("durations", {});
  if (const int64_t most = config.get("max_symbols_per_step", kMaxSymbols); most != kMaxSymbols)
    notes.push_back(fmt::format(
        "max_symbols_per_step {} is a setting of the search here: decode.max_symbols={}", most,
        most));
}

// The reductions that transformers takes where none is given.
Reduction usual_reduction(ParakeetObjective objective) {
  return objective == ParakeetObjective::kTdt ? Reduction::kCtcMean : Reduction::kTokens;
}

HuggingFaceModel read_parakeet(const JsonSettings& config, const fs::path& folder) {
  HuggingFaceModel model{
      .folder = folder, .options = ModelOptions::of_preset("parakeet-ctc-0.6b"), .notes = {}};
  auto& options = model.options.as<ParakeetOptions>();
  refuse_hybrids(config);
  const JsonSettings encoder = encoder_settings(config);
  refuse_other_encoders(encoder);
  read_encoder_shape(encoder, options);
  read_encoder_dropout(encoder, options, model.notes);
  options.objective = objective_of(config);
  if (options.has_transducer()) {
    read_transducer(config, options, model.notes);
    model.reduction = usual_reduction(options.objective);
  } else {
    model.reduction = parakeet_reduction(config, model.notes);
  }
  if (const std::optional<JsonSettings> extractor = open_extractor(folder))
    read_parakeet_extractor(*extractor, options.features);
  return model;
}

DataShape parakeet_shape(const JsonSettings& config, const fs::path& folder) {
  const bool is_ctc = objective_of(config) == ParakeetObjective::kCtc;
  const char* name = is_ctc ? "ctc_head.bias" : "decoder.embedding.weight";
  const WeightFolder weights = WeightFolder::open(folder);
  const TensorView* head = weights.find(name);
  if (head == nullptr || head->shape.empty())
    throw DataError({.attempted = fmt::format("finding the head of {}", folder.string()),
                     .found = fmt::format("no {}", name),
                     .expected = "a Parakeet network with its head"});
  const int64_t vocabulary = head->shape.front();
  return {.vocabulary = vocabulary,
          .blank = config.get(is_ctc ? "pad_token_id" : "blank_token_id", vocabulary - 1)};
}

ordered_json encoder_json(const ParakeetOptions& options) {
  return {{"model_type", "parakeet_encoder"},
          {"hidden_size", options.width},
          {"num_hidden_layers", options.layers},
          {"num_attention_heads", options.heads},
          {"intermediate_size", options.hidden},
          {"hidden_act", "silu"},
          {"attention_bias", options.biases},
          {"convolution_bias", options.biases},
          {"conv_kernel_size", options.kernel},
          {"subsampling_factor", options.subsampling_factor},
          {"subsampling_conv_channels", options.subsampling_channels},
          {"num_mel_bins", options.features.num_mels},
          {"scale_input", options.scale_input},
          {"dropout", options.input_dropout},
          {"activation_dropout", options.activation_dropout},
          {"layerdrop", options.layer_drop}};
}

// Whether transformers has a network with these settings.
bool is_known_there(const ParakeetOptions& options) {
  const bool has_batch_norm = options.convolution_norm == nn::InnerNormKind::kFrozenBatch ||
                              options.convolution_norm == nn::InnerNormKind::kBatch;
  const bool has_one_width =
      !options.has_transducer() || options.transducer.width == options.transducer.joint_width;
  return has_batch_norm && has_one_width;
}

void add_transducer(const ParakeetOptions& options, const DataShape& shape, ordered_json& config) {
  config.update({{"decoder_hidden_size", options.transducer.width},
                 {"num_decoder_layers", options.transducer.layers},
                 {"hidden_act", "relu"},
                 {"blank_token_id", shape.blank}});
  if (options.has_durations()) config["durations"] = options.transducer.durations;
  // transformers does not count labels that are the padding. A file may have null or -1 there.
  const ordered_json& padding = config["pad_token_id"];
  if (!padding.is_number_integer() || padding < 0 || padding >= shape.vocabulary)
    config["pad_token_id"] = shape.blank;
}

// Whether an entry can be the padding: transformers counts and decodes no label that is.
bool is_padding(const data::TokenizersFile& file, int64_t entry, const data::Tokenizer& tokenizer) {
  return entry < std::ssize(file.entries) && file.is_special[static_cast<size_t>(entry)] &&
         tokenizer.unknown() != entry;
}

// std::nullopt where there is none for transformers.
std::optional<data::TokenizersFile> tokenizers_file_for(const HuggingFaceConfig& of,
                                                        bool has_transducer) {
  if (of.tokenizer == nullptr || of.tokenizer->blank() != of.shape.blank) return std::nullopt;
  return of.tokenizer->for_transformers(has_transducer ? "<blank>" : "<pad>");
}

ordered_json extractor_json(const kernels::LogMelOptions& features) {
  return {{"feature_extractor_type", kParakeetExtractor},
          {"feature_size", features.num_mels},
          {"sampling_rate", features.sample_rate},
          {"hop_length", features.hop},
          {"win_length", features.window},
          {"n_fft", std::bit_ceil(static_cast<uint64_t>(features.window))},
          {"preemphasis", kPreemphasis},
          {"padding_side", "right"},
          {"padding_value", 0.0},
          {"return_attention_mask", true}};
}

struct SpecialEntries {
  std::string pad;
  std::optional<int32_t> unknown;
};

void write_tokenizer(const fs::path& folder, const data::TokenizersFile& file,
                     const SpecialEntries& special) {
  write_file(folder / kTokenizersFile, std::as_bytes(std::span(file.text)));
  ordered_json settings = {{"tokenizer_class", "ParakeetTokenizer"},
                           {"processor_class", kParakeetProcessor},
                           {"clean_up_tokenization_spaces", false},
                           {"pad_token", special.pad},
                           {"unk_token", nullptr}};
  if (special.unknown) settings["unk_token"] = file.entries[static_cast<size_t>(*special.unknown)];
  write_hub_json(folder / kTokenizerConfig, settings);
}

// What generate() of transformers needs: it starts with the blank, and outputs for durations are
// not entries.
ordered_json generation_json(const ParakeetOptions& options, const ordered_json& config) {
  ordered_json settings = {{"decoder_start_token_id", config["blank_token_id"]},
                           {"pad_token_id", config["pad_token_id"]}};
  if (!options.has_durations()) return settings;
  ordered_json durations = ordered_json::array();
  for (size_t i = 0; i < options.transducer.durations.size(); ++i)
    durations.push_back(config["vocab_size"].get<size_t>() + i);
  settings["suppress_tokens"] = std::move(durations);
  return settings;
}

void write_parakeet(const fs::path& folder, const HuggingFaceConfig& of) {
  const auto& options = of.model.as<ParakeetOptions>();
  if (!is_known_there(options)) return;
  const ObjectiveNames& names =
      *std::ranges::find(kObjectiveNames, options.objective, &ObjectiveNames::objective);
  ordered_json config = ordered_json::parse(of.source, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || config.value("model_type", "") != names.type)
    config = {{"architectures", {names.architecture}},
              {"model_type", names.type},
              {kEncoderKey, {{"attention_dropout", 0.0}, {"dropout_positions", 0.0}}}};
  // A path of the machine that it came from.
  config.erase("_name_or_path");
  config[kEncoderKey].update(encoder_json(options));
  config["vocab_size"] = of.shape.vocabulary;
  const bool has_transducer = options.has_transducer();
  const std::optional<data::TokenizersFile> file = tokenizers_file_for(of, has_transducer);
  if (has_transducer) {
    add_transducer(options, of.shape, config);
    if (file && !is_padding(*file, config["pad_token_id"].get<int64_t>(), *of.tokenizer))
      config["pad_token_id"] = of.shape.blank;
  } else {
    config["pad_token_id"] = of.shape.blank;
  }
  if (of.reduction && !options.has_transducer()) {
    config["ctc_loss_reduction"] = *of.reduction == Reduction::kSum ? "sum" : "mean";
    config["ctc_zero_infinity"] = true;
  }
  if (of.weights) {
    config.erase("torch_dtype");
    config["dtype"] = *of.weights == at::kBFloat16 ? "bfloat16" : "float32";
  }
  write_hub_json(folder / kHubConfig, config);
  const ordered_json extractor = extractor_json(options.features);
  write_hub_json(folder / kHubPreprocessor, extractor);
  // What transformers reads since version 5.
  ordered_json processor = {{"processor_class", kParakeetProcessor},
                            {"decoder_type", name_of(options.objective, kParakeetObjectives)},
                            {"feature_extractor", extractor}};
  if (file) {
    const std::string& pad = file->entries[config["pad_token_id"].get<size_t>()];
    processor["blank_token"] = file->entries[static_cast<size_t>(of.shape.blank)];
    write_tokenizer(folder, *file, {.pad = pad, .unknown = of.tokenizer->unknown()});
  }
  write_hub_json(folder / kHubProcessor, processor);
  if (has_transducer) write_hub_json(folder / kHubGeneration, generation_json(options, config));
}

}  // namespace

HuggingFaceFormat parakeet_hugging_face() {
  return {.model_types = {"parakeet_ctc", "parakeet_rnnt", "parakeet_tdt"},
          .rules =
              [] {
                const std::vector<std::string> heads = {"ctc_head.", "decoder.",
                                                        "encoder_projector.", "joint."};
                return ImportRules{.may_lack = heads, .may_leave = heads};
              },
          .read = read_parakeet,
          .shape = parakeet_shape,
          .write = write_parakeet};
}

}  // namespace sotto::models
