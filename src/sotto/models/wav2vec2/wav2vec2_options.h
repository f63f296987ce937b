// The settings of wav2vec2 (Baevski et al. 2020) and XLS-R with a CTC head, and its known sizes.
// The names are ours; wav2vec2_hugging_face.cpp reads them from a config.json.
#pragma once

#include <cstdint>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/nn/fronts/wave_encoder.h"
#include "sotto/nn/layers/activation.h"

namespace sotto::models {

struct Wav2Vec2Options {
  // Samples per second of the waveform, and whether each utterance is normalised to mean 0 and
  // variance 1.
  int64_t sample_rate = 16'000;
  bool normalise = true;
  // Convolutions over the waveform.
  std::vector<int64_t> conv_widths = {512, 512, 512, 512, 512, 512, 512};
  std::vector<int64_t> conv_kernels = {10, 3, 3, 3, 3, 2, 2};
  std::vector<int64_t> conv_strides = {5, 2, 2, 2, 2, 2, 2};
  bool conv_bias = false;
  nn::WaveNormKind conv_norm = nn::WaveNormKind::kGroup;
  nn::Activation conv_activation = nn::Activation::kGelu;
  // Positional convolution.
  int64_t position_taps = 128;
  int64_t position_groups = 16;
  // Encoder.
  int64_t layers = 12;
  int64_t width = 768;
  int64_t heads = 12;
  int64_t hidden = 3072;
  nn::Activation activation = nn::Activation::kGelu;
  // Norms before both parts of a block ("stable layer norm"), or after them.
  bool norm_first = false;
  double norm_epsilon = 1e-5;
  // Dropout probabilities: of blocks' results, of their activations, of projected features, before
  // the head.
  double dropout = 0.1;
  double activation_dropout = 0.1;
  double feature_dropout = 0.0;
  double final_dropout = 0.1;
  // Probability that a layer is skipped in a step.
  double layer_drop = 0.1;
  // Spans of frames and of features masked in training, if enabled.
  bool mask = true;
  double mask_time_probability = 0.05;
  int64_t mask_time_length = 10;
  int64_t mask_time_min = 2;
  double mask_feature_probability = 0.0;
  int64_t mask_feature_length = 10;
  int64_t mask_feature_min = 0;
  // Parts that are not trained. Frozen layers freeze everything before them.
  bool freeze_feature_encoder = false;
  bool freeze_positions = false;
  int64_t freeze_layers = 0;
  // Frames per piece in the convolutions; 0: chosen for the device.
  int64_t piece_frames = 0;

  void visit(OptionVisitor& visitor);
  void validate() const;
};

}  // namespace sotto::models
