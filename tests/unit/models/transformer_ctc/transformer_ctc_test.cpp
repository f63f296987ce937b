// The settings of the network's features: kinds, what is usual for each, and what is refused.
#include "sotto/models/transformer_ctc/transformer_ctc.h"

#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "sotto/models/model_options.h"
#include "support/thrown.h"

namespace sotto::models {
namespace {

using kernels::LogMelKind;
using kernels::LogMelOptions;
using test::contains;
using test::message_of;

LogMelOptions features_of(const std::vector<std::string>& overrides) {
  return read_overrides<ModelOptions>(overrides).as<models::TransformerCtcOptions>().features;
}

std::string refusal_of(const std::vector<std::string>& overrides,
                       const DataShape& shape = {.vocabulary = 5}) {
  return message_of<ConfigError>(
      [&] { read_overrides<ModelOptions>(overrides).make(shape, {.device = at::kMeta}); });
}

TEST(TransformerCtcFeatures, HaveTheDefaultsOfTheirKind) {
  EXPECT_EQ(features_of({}), LogMelOptions{});
  EXPECT_EQ(features_of({"features.kind=kaldi"}), LogMelOptions::of_kind(LogMelKind::kKaldi));
  EXPECT_EQ(features_of({"features.kind=kaldi"}).f_min, 20.0);
  EXPECT_EQ(features_of({"features.kind=nemo"}).f_min, 0.0);
  // What is written besides the kind counts, in any order.
  const LogMelOptions changed = features_of(
      {"features.f_min=5", "features.num_mels=128", "features.kind=kaldi", "preset=tiny"});
  EXPECT_EQ(changed.kind, LogMelKind::kKaldi);
  EXPECT_EQ(changed.f_min, 5.0);
  EXPECT_EQ(changed.num_mels, 128);
  EXPECT_EQ(changed.window, 400);
}

TEST(TransformerCtcFeatures, AreReadAsTheyWereWritten) {
  ModelOptions options = ModelOptions::of_preset("tiny");
  options.as<models::TransformerCtcOptions>().features = LogMelOptions::of_kind(LogMelKind::kKaldi);
  options.as<models::TransformerCtcOptions>().features.f_min = 0.0;
  options.as<models::TransformerCtcOptions>().spec_augment.time_masks = 2;
  const auto read = read_options<ModelOptions>(write_options(options));
  EXPECT_EQ(read.as<models::TransformerCtcOptions>().features,
            options.as<models::TransformerCtcOptions>().features);
  EXPECT_EQ(read.as<models::TransformerCtcOptions>().spec_augment.time_masks, 2);
}

TEST(TransformerCtcFeatures, DetermineTheShortestUtterance) {
  const auto min_rows = [](const std::string& kind) {
    return read_overrides<ModelOptions>({"features.kind=" + kind}).min_rows(0);
  };
  EXPECT_EQ(min_rows("torchaudio"), 201);
  EXPECT_EQ(min_rows("whisper"), 201);
  EXPECT_EQ(min_rows("nemo"), 320);
  EXPECT_EQ(min_rows("kaldi"), 400);
}

TEST(TransformerCtcFeatures, RefuseSettingsWithoutEffect) {
  EXPECT_PRED2(contains, refusal_of({"features.kind=htk"}),
               "one of torchaudio, whisper, nemo, kaldi");
  for (const char* kind : {"torchaudio", "whisper", "nemo"}) {
    EXPECT_PRED2(contains,
                 refusal_of({std::string("features.kind=") + kind, "features.window=401"}),
                 "a window of 401 samples. Expected an even number: frames are centred");
  }
  EXPECT_EQ(features_of({"features.kind=kaldi", "features.window=401"}).window, 401);
  EXPECT_PRED2(contains,
               refusal_of({"features.kind=whisper"}, {.vocabulary = 5, .feature_dim = 13}),
               "features of the waveform, but the data has stored ones");
}

TEST(TransformerCtcFeatures, AreNeverMaskedEntirely) {
  EXPECT_PRED2(contains, refusal_of({"spec_augment.frequency_masks=1", "features.num_mels=27"}),
               "spec_augment.frequency_width 27. Expected fewer than the 27 features of a frame");
  EXPECT_PRED2(contains,
               refusal_of({"spec_augment.frequency_masks=1"}, {.vocabulary = 5, .feature_dim = 13}),
               "fewer than the 13 features of a frame");
}

}  // namespace
}  // namespace sotto::models
