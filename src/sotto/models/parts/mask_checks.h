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

// Throws ConfigError for a mask setting without effect that differs from its default and from
// `given`, the initial settings of a preset or a Hugging Face folder.
void check_spec_augment(const nn::SpecAugmentOptions& options, const nn::SpecAugmentOptions& given);

}  // namespace sotto::models
