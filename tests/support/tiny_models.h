// Tiny networks of each family with everything on that training has, and examples for them.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "sotto/core/rng.h"
#include "sotto/models/conformer/conformer.h"
#include "sotto/models/decoder_lm/decoder_lm.h"
#include "sotto/models/parakeet/parakeet_options.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"
#include "sotto/models/whisper/whisper_options.h"
#include "sotto/train/step/run_config.h"

namespace sotto::test {

inline constexpr models::DataShape kWaveShape{.vocabulary = 7, .blank = 0};
inline constexpr models::DataShape kTextShape{.vocabulary = 70};
inline constexpr models::DataShape kWhisperShape{.vocabulary = 20, .blank = 7};

// `is_stable`: the kind of XLS-R, else of the base models. Two layers; a frame each 20 samples.
inline train::RunConfig tiny_wav2vec2(bool is_stable) {
  train::RunConfig config;
  config.model =
      models::ModelOptions::of_preset(is_stable ? "wav2vec2-large-lv60" : "wav2vec2-base");
  models::Wav2Vec2Options& model = config.model.as<models::Wav2Vec2Options>();
  model.conv_widths = {24, 16, 16};
  model.conv_kernels = {10, 3, 2};
  model.conv_strides = {5, 2, 2};
  model.layers = 2;
  model.width = 32;
  model.heads = 4;
  model.hidden = 64;
  model.position_taps = 16;
  model.position_groups = 4;
  model.dropout = 0.1;
  model.activation_dropout = 0.2;
  model.feature_dropout = 0.1;
  model.final_dropout = 0.1;
  model.layer_drop = 0.0;
  model.mask_time_probability = 0.3;
  model.mask_time_length = 4;
  model.mask_feature_probability = 0.2;
  model.mask_feature_length = 5;
  config.optimizer.schedule.kind = optim::ScheduleKind::kConstant;
  config.optimizer.schedule.rate = 1e-3;
  return config;
}

inline train::RunConfig tiny_lm(bool is_tied) {
  train::RunConfig config;
  config.model = models::ModelOptions::of_preset("decoder-lm");
  models::DecoderLmOptions& model = config.model.as<models::DecoderLmOptions>();
  model.layers = 2;
  model.width = 32;
  model.heads = 4;
  model.hidden = 64;
  model.tied = is_tied;
  model.positions = is_tied ? nn::PositionKind::kLearned : nn::PositionKind::kSinusoidal;
  model.max_tokens = 64;
  model.label_smoothing = is_tied ? 0.1 : 0.0;
  config.reduction = models::Reduction::kTokens;
  config.optimizer.schedule.kind = optim::ScheduleKind::kConstant;
  config.optimizer.schedule.rate = 1e-3;
  return config;
}

// Log-mel features of the kind, masked; a frame each 20 samples.
inline train::RunConfig tiny_transformer(kernels::LogMelKind kind) {
  train::RunConfig config;
  config.model = models::ModelOptions::of_preset("tiny");
  models::TransformerCtcOptions& model = config.model.as<models::TransformerCtcOptions>();
  model.features = kernels::LogMelOptions::of_kind(kind);
  model.features.window = 50;
  model.features.hop = 20;
  model.features.num_mels = 10;
  model.spec_augment = {.frequency_masks = 2,
                        .frequency_width = 4,
                        .time_masks = 3,
                        .time_width = 5,
                        .time_share = 0.3};
  model.subsampling_factor = 2;
  model.layers = 2;
  model.width = 32;
  model.hidden = 64;
  config.optimizer.schedule.kind = optim::ScheduleKind::kConstant;
  config.optimizer.schedule.rate = 1e-3;
  return config;
}

// A frame each 20 samples before subsampling, as in tiny_transformer().
inline train::RunConfig tiny_conformer(models::ConformerObjective objective) {
  train::RunConfig config = tiny_transformer(kernels::LogMelKind::kTorchaudio);
  const auto of_transformer = config.model.as<models::TransformerCtcOptions>();
  config.model = models::ModelOptions::of_preset("conformer-128");
  models::ConformerOptions& model = config.model.as<models::ConformerOptions>();
  model.features = of_transformer.features;
  model.spec_augment = of_transformer.spec_augment;
  model.objective = objective;
  const bool is_joint = objective == models::ConformerObjective::kJoint;
  model.subsampling =
      is_joint ? nn::ImageSubsamplingKind::kPlain : nn::ImageSubsamplingKind::kSeparable;
  model.subsampling_channels = 12;
  model.layers = 2;
  model.width = 32;
  model.hidden = 64;
  model.kernel = 7;
  model.decoder_layers = is_joint ? 2 : 0;
  return config;
}

// The same with a batch norm in its convolution modules: with frozen statistics the network with
// both heads, with trained ones that with CTC, and without biases.
inline train::RunConfig tiny_batch_conformer(nn::InnerNormKind kind) {
  const bool is_trained = kind == nn::InnerNormKind::kBatch;
  train::RunConfig config = tiny_conformer(is_trained ? models::ConformerObjective::kCtc
                                                      : models::ConformerObjective::kJoint);
  auto& model = config.model.as<models::ConformerOptions>();
  model.convolution_norm = kind;
  model.biases = !is_trained;
  return config;
}

// A frame each 20 samples before subsampling, as in tiny_transformer().
inline train::RunConfig tiny_parakeet() {
  train::RunConfig config = tiny_transformer(kernels::LogMelKind::kNemo);
  const auto of_transformer = config.model.as<models::TransformerCtcOptions>();
  config.model = models::ModelOptions::of_preset("parakeet-ctc-0.6b");
  auto& model = config.model.as<models::ParakeetOptions>();
  model.features = of_transformer.features;
  model.spec_augment = of_transformer.spec_augment;
  model.subsampling_factor = 2;
  model.subsampling_channels = 12;
  model.layers = 2;
  model.width = 32;
  model.heads = 4;
  model.hidden = 64;
  model.activation_dropout = 0.2;
  return config;
}

// With everything on that training has: of TDT also utterances with the loss of RNN-T.
inline train::RunConfig tiny_transducer(models::ParakeetObjective objective) {
  train::RunConfig config = tiny_parakeet();
  auto& model = config.model.as<models::ParakeetOptions>();
  model.objective = objective;
  model.transducer.width = 20;
  model.transducer.joint_width = 24;
  if (objective == models::ParakeetObjective::kTdt) {
    model.transducer.durations = {0, 1, 3};
    model.transducer.sigma = 0.05;
    model.transducer.omega = 0.3;
    model.transducer.train_start = false;
  }
  return config;
}

// A frame each 20 samples before the convolutions; a window of 1000 samples, as long as the longest
// of wave_examples(). Both stacks have other heads and hidden widths.
inline train::RunConfig tiny_whisper(models::WhisperWindow window) {
  train::RunConfig config = tiny_transformer(kernels::LogMelKind::kWhisper);
  const auto of_transformer = config.model.as<models::TransformerCtcOptions>();
  config.model = models::ModelOptions::of_preset("whisper-tiny");
  auto& model = config.model.as<models::WhisperOptions>();
  model.features = of_transformer.features;
  model.window = window;
  model.tokens = {.vocabulary = kWhisperShape.vocabulary, .start = 8, .end = 7};
  model.positions = 25;
  model.max_tokens = 12;
  model.width = 32;
  model.layers = model.decoder_layers = 2;
  model.heads = 4;
  model.decoder_heads = 2;
  model.hidden = 64;
  model.decoder_hidden = 48;
  model.dropout = 0.1;
  model.activation_dropout = 0.2;
  model.label_smoothing = 0.1;
  model.mask = true;
  model.mask_time_probability = 0.3;
  model.mask_time_length = 4;
  model.mask_feature_probability = 0.2;
  model.mask_feature_length = 3;
  config.reduction = models::Reduction::kTokens;
  return config;
}

// Utterances of 300 samples and more, with few enough labels.
inline std::vector<data::Example> wave_examples(int64_t count, uint64_t seed) {
  const RandomStream stream({.seed = seed});
  std::vector<data::Example> examples;
  for (int64_t u = 0; u < count; ++u) {
    data::Example& example = examples.emplace_back();
    example.utterance = 10 * u + static_cast<int64_t>(seed);
    example.rows = 300 + static_cast<int64_t>(700.0f * stream.uniform(static_cast<uint64_t>(u)));
    const float pitch = 0.02f + 0.1f * stream.uniform(static_cast<uint64_t>(100 + u));
    for (int64_t i = 0; i < example.rows; ++i) {
      const auto index = static_cast<uint64_t>(1000 * (u + 1) + i);
      example.values.push_back(0.3f * std::sin(pitch * static_cast<float>(i)) +
                               0.05f * stream.normal(index));
    }
    for (int64_t label = 0; label <= u % 4; ++label)
      example.labels.push_back(static_cast<int32_t>(1 + (u + label) % 6));
  }
  return examples;
}

// The same after a prompt of three labels.
inline std::vector<data::Example> whisper_examples(int64_t count, uint64_t seed) {
  std::vector<data::Example> examples = wave_examples(count, seed);
  for (data::Example& example : examples) {
    const int32_t language = 9 + static_cast<int32_t>(example.utterance % 2);
    example.labels.insert(example.labels.begin(), {language, 11, 12});
  }
  return examples;
}

// Rows of text of 1 to 40 tokens; in every third one a token has no target.
inline std::vector<data::Example> text_examples(int64_t count, uint64_t seed) {
  const RandomStream stream({.seed = seed});
  std::vector<data::Example> examples;
  for (int64_t u = 0; u < count; ++u) {
    data::Example& example = examples.emplace_back();
    example.utterance = u;
    example.rows = 1 + static_cast<int64_t>(40.0f * stream.uniform(static_cast<uint64_t>(u)));
    for (int64_t i = 0; i < example.rows; ++i) {
      example.tokens.push_back(static_cast<int32_t>((7 * u + 3 * i) % kTextShape.vocabulary));
      example.labels.push_back(static_cast<int32_t>((7 * u + 3 * i + 3) % kTextShape.vocabulary));
    }
    if (u % 3 == 0) example.labels.front() = -100;
  }
  return examples;
}

struct TinyModel {
  std::string name;
  train::RunConfig config;
  models::DataShape shape;
  std::vector<data::Example> (*examples)(int64_t count, uint64_t seed);

  bool depends_on_split() const { return config.model.split_dependence().has_value(); }
};

// All that the tests of equivalence and memory go through.
inline std::vector<TinyModel> tiny_models() {
  return {
      {"wav2vec2", tiny_wav2vec2(false), kWaveShape, wave_examples},
      {"xls_r", tiny_wav2vec2(true), kWaveShape, wave_examples},
      {"tied_lm", tiny_lm(true), kTextShape, text_examples},
      {"untied_lm", tiny_lm(false), kTextShape, text_examples},
      {"torchaudio", tiny_transformer(kernels::LogMelKind::kTorchaudio), kWaveShape, wave_examples},
      {"whisper", tiny_transformer(kernels::LogMelKind::kWhisper), kWaveShape, wave_examples},
      {"nemo", tiny_transformer(kernels::LogMelKind::kNemo), kWaveShape, wave_examples},
      {"kaldi", tiny_transformer(kernels::LogMelKind::kKaldi), kWaveShape, wave_examples},
      {"conformer_joint", tiny_conformer(models::ConformerObjective::kJoint), kWaveShape,
       wave_examples},
      {"conformer_ctc", tiny_conformer(models::ConformerObjective::kCtc), kWaveShape,
       wave_examples},
      {"conformer_batch_frozen", tiny_batch_conformer(nn::InnerNormKind::kFrozenBatch), kWaveShape,
       wave_examples},
      {"conformer_batch", tiny_batch_conformer(nn::InnerNormKind::kBatch), kWaveShape,
       wave_examples},
      {"parakeet", tiny_parakeet(), kWaveShape, wave_examples},
      {"parakeet_rnnt", tiny_transducer(models::ParakeetObjective::kRnnt), kWaveShape,
       wave_examples},
      {"parakeet_tdt", tiny_transducer(models::ParakeetObjective::kTdt), kWaveShape, wave_examples},
      {"whisper_window", tiny_whisper(models::WhisperWindow::kWhole), kWhisperShape,
       whisper_examples},
      {"whisper_utterance", tiny_whisper(models::WhisperWindow::kUtterance), kWhisperShape,
       whisper_examples}};
}

}  // namespace sotto::test
