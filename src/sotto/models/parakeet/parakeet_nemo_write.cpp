// The model_config.yaml of archives that are written.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sotto/core/config/config_json.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/models/parakeet/parakeet_nemo.h"

namespace sotto::models {

namespace {

using nlohmann::ordered_json;

// The layers of NeMo's joint network are numbered, and a dropout is one of them: without it the
// last would have a number that transformers' converter does not know. Written without an exponent,
// which YAML 1.1 would read as text.
constexpr const char* kAlmostNoDropout = "0.000000001";
constexpr const char* kModules = "nemo.collections.asr.modules.";
constexpr const char* kModels = "nemo.collections.asr.models.";

ordered_json preprocessor_json(const kernels::LogMelOptions& features) {
  const auto seconds = [&](int64_t samples) {
    return static_cast<double>(samples) / static_cast<double>(features.sample_rate);
  };
  ordered_json part = {{"_target_", fmt::format("{}AudioToMelSpectrogramPreprocessor", kModules)},
                       {"sample_rate", features.sample_rate},
                       {"normalize", "per_feature"},
                       {"window_size", seconds(features.window)},
                       {"window_stride", seconds(features.hop)},
                       {"window", "hann"},
                       {"features", features.num_mels},
                       {"n_fft", std::bit_ceil(static_cast<uint64_t>(features.window))},
                       {"log", true},
                       {"frame_splicing", 1},
                       {"dither", 0.0},
                       {"pad_to", 0},
                       {"pad_value", 0.0}};
  // Other programs may not know these.
  if (features.f_min > 0.0) part["lowfreq"] = features.f_min;
  if (features.f_max > 0.0) part["highfreq"] = features.f_max;
  return part;
}

ordered_json masks_json(const nn::SpecAugmentOptions& masks) {
  ordered_json part = {{"_target_", fmt::format("{}SpectrogramAugmentation", kModules)},
                       {"freq_masks", masks.frequency_masks},
                       {"time_masks", masks.time_masks},
                       {"freq_width", masks.frequency_width}};
  if (masks.time_share < 1.0) {
    part["time_width"] = masks.time_share;
  } else {
    part["time_width"] = masks.time_width;
  }
  return part;
}

ordered_json encoder_part(const ParakeetOptions& options) {
  return {{"_target_", fmt::format("{}ConformerEncoder", kModules)},
          {"feat_in", options.features.num_mels},
          {"feat_out", -1},
          {"n_layers", options.layers},
          {"d_model", options.width},
          {"subsampling", "dw_striding"},
          {"subsampling_factor", options.subsampling_factor},
          {"subsampling_conv_channels", options.subsampling_channels},
          {"causal_downsampling", false},
          {"ff_expansion_factor", options.hidden / options.width},
          {"self_attention_model", "rel_pos"},
          {"n_heads", options.heads},
          {"att_context_size", {-1, -1}},
          {"att_context_style", "regular"},
          {"xscaling", options.scale_input},
          {"untie_biases", true},
          {"pos_emb_max_len", 5000},
          {"use_bias", options.biases},
          {"conv_kernel_size", options.kernel},
          {"conv_norm_type", "batch_norm"},
          {"conv_context_size", nullptr},
          {"dropout", options.dropout},
          {"dropout_pre_encoder", options.input_dropout},
          {"dropout_emb", 0.0},
          {"dropout_att", 0.0},
          {"stochastic_depth_drop_prob", 0.0}};
}

ordered_json loss_json(const ParakeetOptions& options) {
  if (!options.has_durations())
    return {{"loss_name", "default"},
            {"warprnnt_numba_kwargs", {{"fastemit_lambda", 0.0}, {"clamp", -1.0}}}};
  const TransducerOptions& transducer = options.transducer;
  return {{"loss_name", "tdt"},
          {"tdt_kwargs",
           {{"fastemit_lambda", 0.0},
            {"clamp", -1.0},
            {"durations", transducer.durations},
            {"sigma", transducer.sigma},
            {"omega", transducer.omega}}}};
}

ordered_json decoding_json(const ParakeetOptions& options) {
  ordered_json part = {{"strategy", "greedy_batch"}, {"greedy", {{"max_symbols", 10}}}};
  if (!options.has_durations()) return part;
  part["model_type"] = "tdt";
  part["durations"] = options.transducer.durations;
  return part;
}

void add_transducer(const ParakeetOptions& options, const std::vector<std::string>& pieces,
                    ordered_json& config) {
  const TransducerOptions& transducer = options.transducer;
  const int64_t num_durations = options.has_durations() ? std::ssize(transducer.durations) : 0;
  config["model_defaults"] = {{"enc_hidden", options.width},
                              {"pred_hidden", transducer.width},
                              {"joint_hidden", transducer.joint_width}};
  if (options.has_durations()) {
    config["model_defaults"]["tdt_durations"] = transducer.durations;
    config["model_defaults"]["num_tdt_durations"] = num_durations;
  }
  config["decoder"] = {{"_target_", fmt::format("{}RNNTDecoder", kModules)},
                       {"normalization_mode", nullptr},
                       {"random_state_sampling", false},
                       {"blank_as_pad", true},
                       {"prednet",
                        {{"pred_hidden", transducer.width},
                         {"pred_rnn_layers", transducer.layers},
                         {"t_max", nullptr},
                         {"dropout", transducer.dropout}}},
                       {"vocab_size", pieces.size()}};
  config["joint"] = {{"_target_", fmt::format("{}RNNTJoint", kModules)},
                     {"log_softmax", nullptr},
                     {"preserve_memory", false},
                     {"fuse_loss_wer", false},
                     {"fused_batch_size", 4},
                     {"jointnet",
                      {{"joint_hidden", transducer.joint_width},
                       {"activation", "relu"},
                       {"dropout", transducer.joint_dropout},
                       {"encoder_hidden", options.width},
                       {"pred_hidden", transducer.width}}},
                     {"num_classes", pieces.size()},
                     {"vocabulary", pieces}};
  if (options.has_durations()) config["joint"]["num_extra_outputs"] = num_durations;
  config["decoding"] = decoding_json(options);
  config["loss"] = loss_json(options);
}

std::string_view nemo_reduction(std::optional<Reduction> reduction) {
  const auto* found = std::ranges::find(kNemoReductions, reduction.value_or(Reduction::kUtterances),
                                        &NemoReduction::reduction);
  return found->name;
}

}  // namespace

std::string parakeet_nemo_config(const ParakeetOptions& options, const NemoTokenizer& tokenizer,
                                 std::optional<Reduction> reduction) {
  const char* target = options.has_transducer() ? "EncDecRNNTBPEModel" : "EncDecCTCModelBPE";
  ordered_json config = {{"sample_rate", options.features.sample_rate},
                         {"tokenizer",
                          {{"dir", ""},
                           {"type", "bpe"},
                           {"model_path", "nemo:" + tokenizer.model},
                           {"vocab_path", "nemo:" + tokenizer.words},
                           {"spe_tokenizer_vocab", "nemo:" + tokenizer.scores}}},
                         {"preprocessor", preprocessor_json(options.features)},
                         {"encoder", encoder_part(options)},
                         {"labels", tokenizer.pieces}};
  if (options.has_transducer()) {
    add_transducer(options, tokenizer.pieces, config);
  } else {
    config["decoder"] = {{"_target_", fmt::format("{}ConvASRDecoder", kModules)},
                         {"feat_in", options.width},
                         {"num_classes", tokenizer.pieces.size()},
                         {"vocabulary", tokenizer.pieces}};
    config["decoding"] = {{"strategy", "greedy_batch"}};
  }
  const nn::SpecAugmentOptions& masks = options.spec_augment;
  if (masks.frequency_masks > 0 || masks.time_masks > 0) config["spec_augment"] = masks_json(masks);
  config[options.has_transducer() ? "rnnt_reduction" : "ctc_reduction"] = nemo_reduction(reduction);
  config["target"] = fmt::format("{}{}", kModels, target);
  ConfigNode tree = parse_json(config.dump(), "the settings of a .nemo archive");
  if (options.has_transducer() && options.transducer.joint_dropout == 0.0)
    tree.find("joint")->find("jointnet")->find("dropout")->text = kAlmostNoDropout;
  return format_yaml(tree);
}

}  // namespace sotto::models
