#include "sotto/models/mask_checks.h"

#include "sotto/models/option_checks.h"

namespace sotto::models {

namespace {

// The settings of one kind of masks: current, default and initial values.
template <class Options>
class MaskSettings {
 public:
  MaskSettings(const Options& options, const Options& given) : options_(options), given_(given) {}

  template <class Value>
  void check(const char* key, Value Options::* member, const char* why) const {
    if (options_.*member == usual_.*member || options_.*member == given_.*member) return;
    refuse_settings(
        fmt::format("model.{}: {}, which has no effect with {}", key, options_.*member, why),
        "masks to apply it to, or no such setting");
  }

 private:
  const Options& options_;
  const Options& given_;
  Options usual_ = {};
};

}  // namespace

void check_wav2vec2_masks(const Wav2Vec2Options& options, const Wav2Vec2Options& given) {
  using Options = Wav2Vec2Options;
  const MaskSettings settings(options, given);
  constexpr const char* kOff = "mask: false";
  // With probability 0 there is no vector for masked frames: setting it to 0 has an effect.
  if (!options.mask && options.mask_time_probability > 0.0)
    settings.check("mask_time_probability", &Options::mask_time_probability, kOff);
  if (!options.mask && options.mask_feature_probability > 0.0)
    settings.check("mask_feature_probability", &Options::mask_feature_probability, kOff);
  if (!options.mask || options.mask_time_probability == 0.0) {
    const char* const why = options.mask ? "mask_time_probability: 0" : kOff;
    settings.check("mask_time_length", &Options::mask_time_length, why);
    settings.check("mask_time_min", &Options::mask_time_min, why);
  }
  if (!options.mask || options.mask_feature_probability == 0.0) {
    const char* const why = options.mask ? "mask_feature_probability: 0" : kOff;
    settings.check("mask_feature_length", &Options::mask_feature_length, why);
    settings.check("mask_feature_min", &Options::mask_feature_min, why);
  }
}

void check_spec_augment(const nn::SpecAugmentOptions& options,
                        const nn::SpecAugmentOptions& given) {
  using Options = nn::SpecAugmentOptions;
  const MaskSettings settings(options, given);
  if (options.frequency_masks == 0)
    settings.check("spec_augment.frequency_width", &Options::frequency_width,
                   "spec_augment.frequency_masks: 0");
  if (options.time_masks > 0) return;
  constexpr const char* kWhy = "spec_augment.time_masks: 0";
  settings.check("spec_augment.time_width", &Options::time_width, kWhy);
  settings.check("spec_augment.time_share", &Options::time_share, kWhy);
}

}  // namespace sotto::models
