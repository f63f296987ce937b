#include "sotto/models/wav2vec2_options.h"

#include "sotto/core/error.h"
#include "sotto/models/option_checks.h"

namespace sotto::models {

namespace {

constexpr RealRange kShare{.min = 0, .below = 1};

}  // namespace

void Wav2Vec2Options::visit(OptionVisitor& visitor) {
  visitor.value("sample_rate", sample_rate, "of the waveform, in Hz",
                {.min = 1'000, .max = 400'000});
  visitor.value("normalise", normalise, "bring each utterance to mean 0 and variance 1");
  visitor.value("conv_widths", conv_widths, "outputs of each convolution over the waveform",
                {.min = 1, .max = 16'384});
  visitor.value("conv_kernels", conv_kernels, "taps of each", {.min = 1, .max = 64});
  visitor.value("conv_strides", conv_strides, "stride of each", {.min = 1, .max = 64});
  visitor.value("conv_bias", conv_bias, "whether they have biases");
  visitor.choice("conv_norm", conv_norm, "norm of the first by utterance, or of all by frame",
                 nn::kWaveNormKinds);
  visitor.choice("conv_activation", conv_activation, "behind each", nn::kActivations);
  visitor.value("position_taps", position_taps, "frames that the positional convolution sees",
                {.min = 1, .max = 4'096});
  visitor.value("position_groups", position_groups, "of its channels; divides the width",
                {.min = 1, .max = 16'384});
  visitor.value("layers", layers, "transformer blocks", {.min = 1, .max = 200});
  visitor.value("width", width, "of a frame in the encoder", {.min = 2, .max = 16'384});
  visitor.value("heads", heads, "of attention; divides the width", {.min = 1, .max = 256});
  visitor.value("hidden", hidden, "width inside the feed-forward part", {.min = 1, .max = 65'536});
  visitor.choice("activation", activation, "of feed-forward parts", nn::kActivations);
  visitor.value("norm_first", norm_first, "norms before both parts of a block, or behind them");
  visitor.value("norm_epsilon", norm_epsilon, "added to the variance", {.above = 0});
  visitor.value("dropout", dropout, "share of blocks' results set to zero", kShare);
  visitor.value("activation_dropout", activation_dropout, "of activations inside them", kShare);
  visitor.value("feature_dropout", feature_dropout, "of projected features", kShare);
  visitor.value("final_dropout", final_dropout, "before the head", kShare);
  visitor.value("layer_drop", layer_drop, "probability that a layer is left out of a step", kShare);
  visitor.value("mask", mask, "hide spans of frames and features in training");
  visitor.value("mask_time_probability", mask_time_probability, "share of frames hidden", kShare);
  visitor.value("mask_time_length", mask_time_length, "frames of a hidden span",
                {.min = 1, .max = 10'000});
  visitor.value("mask_time_min", mask_time_min, "hidden spans at least", {.min = 0, .max = 1'000});
  visitor.value("mask_feature_probability", mask_feature_probability, "share of features hidden",
                kShare);
  visitor.value("mask_feature_length", mask_feature_length, "features of a hidden span",
                {.min = 1, .max = 10'000});
  visitor.value("mask_feature_min", mask_feature_min, "hidden spans at least",
                {.min = 0, .max = 1'000});
  visitor.value("freeze_feature_encoder", freeze_feature_encoder, "do not train the convolutions");
  visitor.value("freeze_positions", freeze_positions, "nor the positional convolution");
  visitor.value("freeze_layers", freeze_layers, "nor so many first layers, and all before them",
                {.min = 0, .max = 200});
  visitor.value("piece_frames", piece_frames, "that convolutions take at a time; 0: by the device",
                {.min = 0, .max = 1'000'000});
}

void Wav2Vec2Options::validate() const {
  check_heads(width, heads);
  if (width % position_groups != 0)
    refuse_settings(fmt::format("a width of {} in {} groups", width, position_groups),
                    "position_groups that divide the width");
  if (conv_widths.empty() || conv_widths.size() != conv_kernels.size() ||
      conv_widths.size() != conv_strides.size())
    refuse_settings(fmt::format("{} conv_widths, {} conv_kernels and {} conv_strides",
                                conv_widths.size(), conv_kernels.size(), conv_strides.size()),
                    "as many of each, and at least one");
  if (freeze_layers > layers)
    refuse_settings(fmt::format("freeze_layers: {} of {}", freeze_layers, layers),
                    "at most all layers");
}

}  // namespace sotto::models
