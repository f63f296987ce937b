// Detects mask settings that have no effect, because the masks they configure are disabled.
#pragma once

#include <fmt/format.h>

#include "sotto/models/option_checks.h"
#include "sotto/nn/fronts/spec_augment.h"

namespace sotto::models {

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

// For settings of spans: mask, mask_time_probability, _length and _min, mask_feature_probability,
// _length and _min. Throws ConfigError for one without effect that differs from its default and
// from `given`.
template <class Options>
void check_span_masks(const Options& options, const Options& given) {
  const MaskSettings settings(options, given);
  constexpr const char* kOff = "mask: false";
  // With probability 0 a network may lack the vector for masked frames: setting it to 0 has an
  // effect.
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

// Throws ConfigError for a mask setting without effect that differs from its default and from
// `given`, the initial settings of a preset or a Hugging Face folder.
void check_spec_augment(const nn::SpecAugmentOptions& options, const nn::SpecAugmentOptions& given);

}  // namespace sotto::models
