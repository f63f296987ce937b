// The settings of Whisper (Radford et al. 2022, arXiv:2212.04356) and its known sizes. The names
// are ours; whisper_hugging_face.cpp reads them from a config.json.
#pragma once

#include <array>
#include <cstdint>

#include "sotto/core/config/options.h"
#include "sotto/data/text/whisper_prompts.h"
#include "sotto/kernels/features/log_mel.h"

namespace sotto::models {

// What the encoder sees of an utterance: all frames that it has positions for, or those of the
// utterance.
enum class WhisperWindow { kWhole, kUtterance };

inline constexpr std::array kWhisperWindows = {Named{"30s", WhisperWindow::kWhole},
                                               Named{"utterance", WhisperWindow::kUtterance}};

struct WhisperOptions {
  // Input frames per encoder frame: the second convolution has a stride of 2.
  static constexpr int64_t kSubsampling = 2;

  kernels::LogMelOptions features = kernels::LogMelOptions::of_kind(kernels::LogMelKind::kWhisper);
  // `30s`: silence is added to an utterance up to that length, as the released networks were
  // trained; `utterance`: nothing is added.
  WhisperWindow window = WhisperWindow::kWhole;
  data::WhisperNumbers tokens;
  // Most encoder frames of an utterance, and most tokens of a transcript with its prompt: each has
  // a position.
  int64_t positions = 1500;
  int64_t max_tokens = 448;
  int64_t width = 384;
  int64_t layers = 4;
  int64_t heads = 6;
  // Width inside the feed-forward parts.
  int64_t hidden = 1536;
  int64_t decoder_layers = 4;
  int64_t decoder_heads = 6;
  int64_t decoder_hidden = 1536;
  // Dropout probabilities: after positions and the parts of a block, inside the feed-forward parts.
  double dropout = 0.0;
  double activation_dropout = 0.0;
  // Probability that a step skips a layer of the encoder, of the decoder.
  double layer_drop = 0.0;
  double decoder_layer_drop = 0.0;
  // Probability spread over all tokens in the loss.
  double label_smoothing = 0.0;
  // Spans of frames and features of the log-mel features masked in training, if enabled.
  bool mask = false;
  double mask_time_probability = 0.05;
  int64_t mask_time_length = 10;
  int64_t mask_time_min = 2;
  double mask_feature_probability = 0.0;
  int64_t mask_feature_length = 10;
  int64_t mask_feature_min = 0;
  // Parts that are not trained: the encoder, or its first layers with everything before them; with
  // the whole encoder, also first layers of the decoder with its embedding.
  bool freeze_encoder = false;
  int64_t freeze_layers = 0;
  int64_t freeze_decoder_layers = 0;
  // Tokens whose logits are computed at a time; 0: 52 MiB of logits.
  int64_t loss_rows = 0;

  int64_t num_frozen_layers() const { return freeze_encoder ? layers : freeze_layers; }
  // Samples of a whole window.
  int64_t window_samples() const { return positions * kSubsampling * features.hop; }

  void visit(OptionVisitor& visitor);
  void validate() const;
};

}  // namespace sotto::models
