#include "sotto/models/parakeet/parakeet_nemo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/files/json_object.h"
#include "sotto/models/parakeet/nemo_settings.h"

namespace sotto::models {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The classes of NeMo whose networks can be built.
constexpr std::string_view kCtcClass = "EncDecCTCModelBPE";
constexpr std::string_view kTransducerClass = "EncDecRNNTBPEModel";
constexpr int64_t kNemoMaxSymbols = 10;
// Dropout of an archive that stands for none, see parakeet_nemo_write.cpp.
constexpr double kNoDropout = 1e-6;

std::string_view class_name(std::string_view target) {
  return target.substr(target.rfind('.') + 1);
}

[[noreturn]] void refuse_nemo(const fs::path& archive, const std::string& found,
                              const std::string& expected, const std::string& hint) {
  throw ConfigError({.attempted = fmt::format("reading {}: model_config.yaml", archive.string()),
                     .found = found,
                     .expected = expected,
                     .hint = hint});
}

// Throws for networks of other kinds.
void check_kind(const json& settings, const fs::path& archive) {
  if (settings.contains("aux_ctc") && !settings.at("aux_ctc").is_null())
    refuse_nemo(archive, "\"aux_ctc\": a hybrid network, with a CTC head beside its transducer",
                "a network with one head",
                fmt::format("Save the transducer ({}) or the CTC head ({}) alone in NeMo.",
                            kTransducerClass, kCtcClass));
  const auto target = settings.value("target", json());
  if (target.is_null()) return;
  const std::string_view name =
      target.is_string() ? class_name(target.get_ref<const std::string&>()) : std::string_view();
  if (name != kCtcClass && name != kTransducerClass)
    refuse_nemo(archive, fmt::format("\"target\": {}", shown(target)),
                fmt::format("{} or {}", kCtcClass, kTransducerClass),
                "FastConformers with CTC, RNN-T or TDT and a SentencePiece tokenizer can be read.");
}

void check_tokenizer(const json& settings, const fs::path& archive) {
  NemoSettings tokenizer(settings, "tokenizer", archive);
  const auto type = tokenizer.get<std::string>("type", "");
  if (type == "bpe") return;
  if (type == "agg")
    tokenizer.refuse("\"type\": \"agg\", several tokenizers, one per language",
                     "bpe, one SentencePiece model");
  if (type == "wpe")
    tokenizer.refuse("\"type\": \"wpe\", a WordPiece vocabulary", "bpe, one SentencePiece model");
  tokenizer.refuse(
      type.empty() ? "no tokenizer, as in networks of characters" : tokenizer.shown("type"),
      "bpe, one SentencePiece model");
}

int64_t samples_of(NemoSettings& part, const char* seconds, const char* samples, double usual) {
  if (part.has(samples)) return part.get(samples, int64_t{0});
  const double rate = part.get_number("sample_rate", 16'000.0);
  return std::llround(part.get_number(seconds, usual) * rate);
}

void read_preprocessor(const json& settings, const fs::path& archive,
                       kernels::LogMelOptions& features) {
  NemoSettings part(settings, "preprocessor", archive);
  part.require_class("AudioToMelSpectrogramPreprocessor");
  features.sample_rate = part.get("sample_rate", int64_t{16'000});
  features.window = samples_of(part, "window_size", "n_window_size", 0.02);
  features.hop = samples_of(part, "window_stride", "n_window_stride", 0.01);
  features.num_mels = part.get("features", int64_t{64});
  features.f_min = part.get_number("lowfreq", 0.0);
  features.f_max = part.get_number("highfreq", 0.0);
  const auto points = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, features.window))));
  part.require("n_fft", points, points);
  part.require("window", "hann", "hann");
  part.require("normalize", "per_feature", "per_feature");
  part.require("log", true);
  part.require("log_zero_guard_type", "add", "add");
  part.require("log_zero_guard_value", std::ldexp(1.0, -24));
  part.require("preemph", 0.97);
  part.require("mag_power", 2.0);
  part.require("mel_norm", "slaney", "slaney");
  part.require("frame_splicing", int64_t{1});
  part.require_off("exact_pad");
  part.require_off("nb_augmentation_prob");
  // Noise and padding of a batch; frames beyond an utterance never count.
  part.ignore({"dither", "pad_to", "pad_value", "rng", "nb_max_freq", "use_torchaudio",
               "stft_exact_pad", "stft_conv"});
  part.finish();
}

// Whether a context is unlimited on both sides: null, [-1, -1] or a list of only that.
bool is_unlimited(const json& context) {
  if (context.is_null()) return true;
  if (context == json::array({-1, -1})) return true;
  return context.is_array() && context.size() == 1 && context.front() == json::array({-1, -1});
}

// Throws for attention and convolutions that do not see everything, as for streaming.
void check_context(NemoSettings& part, int64_t kernel) {
  part.require("self_attention_model", "rel_pos", "rel_pos");
  if (part.has("att_context_size") && !is_unlimited(part.values().at("att_context_size")))
    part.refuse(fmt::format("{}, for streaming", part.shown("att_context_size")), "[-1, -1]");
  part.require("att_context_style", "regular", "regular");
  part.require_off("att_chunk_context_size");
  const json centred = json::array({(kernel - 1) / 2, (kernel - 1) / 2});
  if (part.has("conv_context_size") && part.values().at("conv_context_size") != centred)
    part.refuse(fmt::format("{}, for streaming", part.shown("conv_context_size")),
                fmt::format("null, or {}", centred.dump()));
  part.require("conv_context_style", "regular", "regular");
  part.require_off("conv_dual_mode");
  part.require_off("causal_downsampling");
}

void read_encoder_sizes(NemoSettings& part, ParakeetOptions& options) {
  options.layers = part.get("n_layers", int64_t{0});
  options.width = part.get("d_model", int64_t{0});
  options.heads = part.get("n_heads", int64_t{4});
  // Products beyond the range of settings would overflow.
  constexpr int64_t kMost = int64_t{1} << 20;
  options.hidden = std::clamp(options.width, -kMost, kMost) *
                   std::clamp(part.get("ff_expansion_factor", int64_t{4}), -kMost, kMost);
  options.kernel = std::clamp(part.get("conv_kernel_size", int64_t{31}), -kMost, kMost);
  options.biases = part.get("use_bias", true);
  options.scale_input = part.get("xscaling", true);
  options.subsampling_factor = part.get("subsampling_factor", int64_t{4});
  const auto channels = part.get("subsampling_conv_channels", int64_t{-1});
  options.subsampling_channels = channels == -1 ? options.width : channels;
  part.require("feat_in", options.features.num_mels);
  if (const auto out = part.get("feat_out", int64_t{-1}); out > 0 && out != options.width)
    part.refuse(part.shown("feat_out"), fmt::format("-1, or {}, the width", options.width));
}

void read_encoder_dropouts(NemoSettings& part, ParakeetOptions& options,
                           std::vector<std::string>& notes) {
  options.dropout = options.activation_dropout = part.get_number("dropout", 0.1);
  options.input_dropout = part.get_number("dropout_pre_encoder", 0.1);
  for (const auto& [key, usual] : {std::pair("dropout_emb", 0.1), {"dropout_att", 0.0}})
    if (const double dropout = part.get_number(key, usual); dropout > 0.0)
      notes.push_back(
          fmt::format("{} {} becomes 0 in training: it is not supported", key, dropout));
  part.require_off("stochastic_depth_drop_prob");
  part.ignore({"stochastic_depth_mode", "stochastic_depth_start_layer"});
}

void read_encoder(const json& settings, const fs::path& archive, HuggingFaceModel& model) {
  NemoSettings part(settings, "encoder", archive);
  auto& options = model.options.as<ParakeetOptions>();
  if (part.values().empty()) part.refuse("no encoder", "the settings of a FastConformer");
  part.require_class("ConformerEncoder");
  part.require("subsampling", "dw_striding", "striding");
  read_encoder_sizes(part, options);
  check_context(part, options.kernel);
  read_encoder_dropouts(part, options, model.notes);
  part.require("untie_biases", true);
  part.require("conv_norm_type", "batch_norm", "batch_norm");
  part.require_off("reduction");
  part.ignore({"reduction_position", "reduction_factor", "pos_emb_max_len", "att_context_probs",
               "global_tokens", "global_tokens_spacing", "global_attn_separate",
               "subsampling_conv_chunking_factor", "use_pytorch_sdpa", "use_pytorch_sdpa_backends",
               "sync_max_audio_length", "use_triton", "bypass_pre_encode", "rope_base",
               "rotary_fraction"});
  part.finish();
  model.notes.emplace_back(
      "batch norms keep their statistics; model.convolution_norm=batch trains them, and the split "
      "of a step into micro-batches then changes the result");
}

double dropout_of(NemoSettings& part) {
  const double dropout = part.get_number("dropout", 0.0);
  return dropout < kNoDropout ? 0.0 : dropout;
}

void read_prediction(const json& settings, const fs::path& archive, TransducerOptions& transducer) {
  NemoSettings part(settings, "decoder", archive);
  part.require_class("RNNTDecoder");
  NemoSettings network = part.part("prednet");
  transducer.width = network.get("pred_hidden", int64_t{0});
  transducer.layers = network.get("pred_rnn_layers", int64_t{1});
  transducer.dropout = dropout_of(network);
  if (const auto hidden = network.get("rnn_hidden_size", int64_t{-1});
      hidden > 0 && hidden != transducer.width)
    network.refuse(network.shown("rnn_hidden_size"),
                   fmt::format("-1, or {}, the width", transducer.width));
  // How a new network begins.
  network.ignore({"forget_gate_bias", "weights_init_scale", "hidden_hidden_bias_scale", "t_max"});
  network.require_off("t_max");
  network.finish();
  part.require("blank_as_pad", true);
  part.require_off("normalization_mode");
  part.require_off("random_state_sampling");
  part.ignore({"vocab_size"});
  part.finish();
}

void read_joint(const json& settings, const fs::path& archive, const ParakeetOptions& options,
                TransducerOptions& transducer) {
  NemoSettings part(settings, "joint", archive);
  part.require_class("RNNTJoint");
  NemoSettings network = part.part("jointnet");
  transducer.joint_width = network.get("joint_hidden", int64_t{0});
  transducer.joint_dropout = dropout_of(network);
  network.require("activation", "relu", "relu");
  network.require("encoder_hidden", options.width);
  network.require("pred_hidden", transducer.width);
  network.finish();
  const int64_t durations = options.has_durations() ? std::ssize(transducer.durations) : 0;
  if (const auto extra = part.get("num_extra_outputs", int64_t{0}); extra != durations)
    part.refuse(part.shown("num_extra_outputs"),
                fmt::format("{}, the number of durations", durations));
  // -1: none.
  if (part.get_number("masking_prob", -1.0) > 0.0)
    part.refuse(part.shown("masking_prob"), "-1 or 0: masking in the joint is not supported");
  // Names and sizes follow from the weights; the others change how NeMo computes, not what.
  part.ignore({"num_classes", "vocabulary", "log_softmax", "preserve_memory", "fuse_loss_wer",
               "fused_batch_size", "experimental_fuse_loss_wer"});
  part.finish();
}

// The loss of a transducer: its name, and durations of TDT.
void read_loss(const json& settings, const fs::path& archive, ParakeetOptions& options) {
  NemoSettings part(settings, "loss", archive);
  NemoSettings defaults(settings, "model_defaults", archive);
  const auto name = part.get<std::string>("loss_name", "default");
  const bool is_tdt = name == "tdt" || name == "tdt_pytorch";
  constexpr std::array kPlain = {"default", "warprnnt", "warprnnt_numba", "rnnt", "pytorch"};
  if (!is_tdt && std::ranges::find(kPlain, name) == kPlain.end())
    part.refuse(part.shown("loss_name"), fmt::format("tdt, or {}", fmt::join(kPlain, ", ")));
  options.objective = is_tdt ? ParakeetObjective::kTdt : ParakeetObjective::kRnnt;
  const std::string resolved = name == "default" ? "warprnnt_numba" : name;
  NemoSettings arguments = part.part(fmt::format("{}_kwargs", resolved).c_str());
  arguments.require_off("fastemit_lambda");
  // -1: none.
  if (arguments.get_number("clamp", -1.0) > 0.0)
    arguments.refuse(arguments.shown("clamp"), "-1 or 0: clipping of the loss is not supported");
  if (is_tdt) {
    TransducerOptions& transducer = options.transducer;
    transducer.sigma = arguments.get_number("sigma", 0.0);
    transducer.omega = arguments.get_number("omega", 0.0);
    transducer.durations =
        arguments.get("durations", defaults.get("tdt_durations", transducer.durations));
  }
  arguments.finish();
}

void read_ctc_head(const json& settings, const fs::path& archive, const ParakeetOptions& options) {
  NemoSettings part(settings, "decoder", archive);
  part.require_class("ConvASRDecoder");
  if (part.has("feat_in")) part.require("feat_in", options.width);
  part.require("add_blank", true);
  part.ignore({"num_classes", "vocabulary", "init_mode"});
  part.finish();
}

void read_masks(const json& settings, const fs::path& archive, HuggingFaceModel& model) {
  NemoSettings part(settings, "spec_augment", archive);
  auto& masks = model.options.as<ParakeetOptions>().spec_augment;
  const nn::SpecAugmentOptions usual = masks;
  masks.frequency_masks = part.get("freq_masks", int64_t{0});
  if (masks.frequency_masks > 0) masks.frequency_width = part.get("freq_width", int64_t{10});
  masks.time_masks = part.get("time_masks", int64_t{0});
  if (masks.time_masks > 0 && part.has("time_width")) {
    // A fraction is a share of the utterance.
    if (part.values().at("time_width").is_number_float()) {
      masks.time_share = part.get_number("time_width", 0.05);
      masks.time_width = 1'000'000;
    } else {
      masks.time_width = part.get("time_width", int64_t{10});
    }
  } else if (masks.time_masks > 0) {
    masks.time_width = 10;
  }
  // A width of 0 masks nothing.
  if (masks.frequency_width == 0) {
    masks.frequency_masks = 0;
    masks.frequency_width = usual.frequency_width;
  }
  if (masks.time_width == 0 || masks.time_share == 0.0) {
    masks.time_masks = 0;
    masks.time_width = usual.time_width;
    masks.time_share = usual.time_share;
  }
  if (part.get("rect_masks", int64_t{0}) > 0)
    model.notes.push_back(fmt::format("{} of spec_augment are not supported: there are none",
                                      part.shown("rect_masks")));
}

Reduction read_reduction(const json& settings, const fs::path& archive, bool is_ctc) {
  const char* key = is_ctc ? "ctc_reduction" : "rnnt_reduction";
  const JsonSettings whole(settings,
                           fmt::format("reading {}: model_config.yaml", archive.string()));
  const auto name = whole.get<std::string>(key, "mean_batch");
  const auto* found = std::ranges::find(kNemoReductions, name, &NemoReduction::name);
  if (found == kNemoReductions.end())
    whole.refuse(whole.shown(key), "mean_batch, mean_volume, mean or sum");
  return found->reduction;
}

// Settings of training and of the search that this program has under other names, or lacks.
void note_others(const json& settings, const fs::path& archive, std::vector<std::string>& notes) {
  NemoSettings noise(settings, "variational_noise", archive);
  if (noise.get_number("std", 0.0) > 0.0)
    notes.push_back(
        fmt::format("variational_noise is not supported: {} becomes 0", noise.shown("std")));
  NemoSettings inner(settings, "interctc", archive);
  if (inner.has("loss_weights") && !inner.values().at("loss_weights").empty())
    notes.emplace_back("interctc is not supported: the loss is that of the last layer alone");
  NemoSettings decoding(settings, "decoding", archive);
  const int64_t most = decoding.part("greedy").get("max_symbols", kNemoMaxSymbols);
  if (most != kNemoMaxSymbols)
    notes.push_back(
        fmt::format("max_symbols {0} is a setting of the search here: "
                    "decode.max_symbols={0}",
                    most));
}

}  // namespace

HuggingFaceModel read_parakeet_nemo(const json& settings, const fs::path& archive) {
  HuggingFaceModel model{
      .folder = archive, .options = ModelOptions::of_preset("parakeet-ctc-0.6b"), .notes = {}};
  auto& options = model.options.as<ParakeetOptions>();
  if (!settings.is_object())
    refuse_nemo(archive, "no settings", "those of a network, as NeMo writes them", "");
  check_kind(settings, archive);
  check_tokenizer(settings, archive);
  read_preprocessor(settings, archive, options.features);
  read_encoder(settings, archive, model);
  NemoSettings decoder(settings, "decoder", archive);
  if (decoder.has("prednet")) {
    read_loss(settings, archive, options);
    // In NeMo the blank's row is padding.
    options.transducer.train_start = false;
    read_prediction(settings, archive, options.transducer);
    read_joint(settings, archive, options, options.transducer);
  } else {
    options.objective = ParakeetObjective::kCtc;
    read_ctc_head(settings, archive, options);
  }
  read_masks(settings, archive, model);
  model.reduction = read_reduction(settings, archive, !options.has_transducer());
  note_others(settings, archive, model.notes);
  return model;
}

}  // namespace sotto::models
