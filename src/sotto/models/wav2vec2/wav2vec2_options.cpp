#include "sotto/models/wav2vec2/wav2vec2_options.h"

#include "sotto/core/error.h"
#include "sotto/models/option_checks.h"

namespace sotto::models {

namespace {

constexpr RealRange kShare{.min = 0, .below = 1};

}  // namespace

void Wav2Vec2Options::visit(OptionVisitor& visitor) {
  visitor.value("sample_rate", sample_rate, "sample rate of the waveform, in Hz",
                {.min = 1'000, .max = 400'000});
  visitor.value("normalise", normalise, "normalise each utterance to mean 0 and variance 1");
  visitor.value("conv_widths", conv_widths, "output channels of each convolution over the waveform",
                {.min = 1, .max = 16'384});
  visitor.value("conv_kernels", conv_kernels, "kernel size of each convolution",
                {.min = 1, .max = 64});
  visitor.value("conv_strides", conv_strides, "stride of each convolution", {.min = 1, .max = 64});
  visitor.value("conv_bias", conv_bias, "convolutions have biases");
  visitor.choice("conv_norm", conv_norm,
                 "norm of the first convolution per utterance, or of all per frame",
                 nn::kWaveNormKinds);
  visitor.choice("conv_activation", conv_activation, "activation after each convolution",
                 nn::kActivations);
  visitor.value("position_taps", position_taps,
                "kernel size of the positional convolution, in frames", {.min = 1, .max = 4'096});
  visitor.value("position_groups", position_groups,
                "groups of the positional convolution; must divide the width",
                {.min = 1, .max = 16'384});
  visitor.value("layers", layers, "transformer blocks", {.min = 1, .max = 200});
  visitor.value("width", width, "values per encoder frame", {.min = 2, .max = 16'384});
  visitor.value("heads", heads, "attention heads; must divide the width", {.min = 1, .max = 256});
  visitor.value("hidden", hidden, "feed-forward width", {.min = 1, .max = 65'536});
  visitor.choice("activation", activation, "activation of the feed-forward parts",
                 nn::kActivations);
  visitor.value("norm_first", norm_first,
                "normalise before both parts of a block (pre-norm), not after them");
  visitor.value("norm_epsilon", norm_epsilon, "epsilon of the norms, added to the variance",
                {.above = 0});
  visitor.value("dropout", dropout, "dropout probability after positions and both parts of a block",
                kShare);
  visitor.value("activation_dropout", activation_dropout,
                "dropout probability inside the feed-forward parts", kShare);
  visitor.value("feature_dropout", feature_dropout, "dropout probability of the projected features",
                kShare);
  visitor.value("final_dropout", final_dropout, "dropout probability before the head", kShare);
  visitor.value("layer_drop", layer_drop, "probability that a step skips a layer", kShare);
  visitor.value("mask", mask, "mask spans of frames and features in training");
  visitor.value("mask_time_probability", mask_time_probability, "fraction of frames masked",
                kShare);
  visitor.value("mask_time_length", mask_time_length, "frames per masked span",
                {.min = 1, .max = 10'000});
  visitor.value("mask_time_min", mask_time_min, "minimum number of masked time spans",
                {.min = 0, .max = 1'000});
  visitor.value("mask_feature_probability", mask_feature_probability, "fraction of features masked",
                kShare);
  visitor.value("mask_feature_length", mask_feature_length, "features per masked span",
                {.min = 1, .max = 10'000});
  visitor.value("mask_feature_min", mask_feature_min, "minimum number of masked feature spans",
                {.min = 0, .max = 1'000});
  visitor.value("freeze_feature_encoder", freeze_feature_encoder, "do not train the convolutions");
  visitor.value("freeze_positions", freeze_positions, "do not train the positional convolution");
  visitor.value("freeze_layers", freeze_layers,
                "number of first layers not to train, with everything before them",
                {.min = 0, .max = 200});
  visitor.value("piece_frames", piece_frames,
                "frames per piece of the convolutions; 0: chosen by device",
                {.min = 0, .max = 1'000'000});
}

void Wav2Vec2Options::validate() const {
  check_heads(width, heads);
  if (width % position_groups != 0)
    refuse_settings(fmt::format("a width of {} in {} groups", width, position_groups),
                    "a number of position_groups that divides the width");
  if (conv_widths.empty() || conv_widths.size() != conv_kernels.size() ||
      conv_widths.size() != conv_strides.size())
    refuse_settings(fmt::format("{} conv_widths, {} conv_kernels and {} conv_strides",
                                conv_widths.size(), conv_kernels.size(), conv_strides.size()),
                    "the same number of each, at least one");
  if (freeze_layers > layers)
    refuse_settings(fmt::format("freeze_layers: {} of {}", freeze_layers, layers),
                    "at most all layers");
}

}  // namespace sotto::models
