#include "sotto/models/model_options.h"

#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "support/thrown.h"

namespace sotto::models {
namespace {

using test::contains;

ModelOptions read(const std::vector<std::string>& settings) {
  return read_options<ModelOptions>(load_overrides(settings));
}

std::string refusal(const std::vector<std::string>& settings) {
  return test::message_of<ConfigError>([&] { read(settings).check_effects({}); });
}

TEST(MaskChecks, RefuseSettingsWithoutEffect) {
  const std::string wave = "preset=wav2vec2-base";
  EXPECT_PRED2(contains, refusal({wave, "mask=false", "mask_time_min=3"}),
               "model.mask_time_min: 3, which has no effect with mask: false");
  EXPECT_PRED2(contains, refusal({wave, "mask=false", "mask_time_probability=0.2"}),
               "model.mask_time_probability: 0.2");
  EXPECT_PRED2(contains, refusal({wave, "mask=false", "mask_feature_probability=0.2"}),
               "model.mask_feature_probability: 0.2");
  EXPECT_PRED2(contains, refusal({wave, "mask_time_probability=0", "mask_time_length=20"}),
               "model.mask_time_length: 20, which has no effect with mask_time_probability: 0");
  EXPECT_PRED2(contains, refusal({wave, "mask_feature_length=64"}),
               "which has no effect with mask_feature_probability: 0");
  EXPECT_PRED2(contains, refusal({wave, "mask_feature_min=1"}), "model.mask_feature_min: 1");
  const std::string mel = "preset=tiny";
  EXPECT_PRED2(contains, refusal({mel, "spec_augment.frequency_width=10"}),
               "model.spec_augment.frequency_width: 10, which has no effect with "
               "spec_augment.frequency_masks: 0");
  EXPECT_PRED2(contains, refusal({mel, "spec_augment.time_width=50"}), "time_masks: 0");
  EXPECT_PRED2(contains, refusal({mel, "spec_augment.time_share=0.2"}), "time_masks: 0");
}

TEST(MaskChecks, AcceptSettingsWithEffect) {
  for (const std::vector<std::string>& settings : std::vector<std::vector<std::string>>{
           {"preset=wav2vec2-base"},
           {"preset=wav2vec2-base", "mask=false"},
           {"preset=wav2vec2-base", "mask_time_probability=0"},
           {"preset=wav2vec2-base", "mask=false", "mask_time_probability=0"},
           {"preset=wav2vec2-base", "mask_time_length=20", "mask_feature_probability=0.1",
            "mask_feature_length=64"},
           {"preset=tiny", "spec_augment.time_masks=2", "spec_augment.time_width=50"},
           {"preset=decoder-lm"}})
    EXPECT_NO_THROW(read(settings).check_effects({})) << settings.back();
  // As a folder has it.
  const ModelOptions given = read({"preset=wav2vec2-base", "mask_feature_length=64"});
  EXPECT_NO_THROW(given.check_effects(given));
}

}  // namespace
}  // namespace sotto::models
