// Masked spans of frames and features as transformers writes them in a config.json, for families
// with the settings mask, mask_time_probability, _length and _min, mask_feature_probability,
// _length and _min.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "sotto/core/config/json_settings.h"

namespace sotto::models {

// Resets the settings of spans without effect to their defaults: a run that sets others is refused
// (mask_checks.h), and one that sets none must not be.
template <class Options>
void forget_idle_masks(Options& options) {
  const Options usual;
  if (!options.mask && options.mask_time_probability > 0.0) {
    // The vector for masked frames exists all the same.
    options.mask_time_probability = usual.mask_time_probability;
    options.mask_feature_probability = usual.mask_feature_probability;
  }
  if (!options.mask || options.mask_time_probability == 0.0) {
    options.mask_time_length = usual.mask_time_length;
    options.mask_time_min = usual.mask_time_min;
  }
  if (!options.mask || options.mask_feature_probability == 0.0) {
    options.mask_feature_length = usual.mask_feature_length;
    options.mask_feature_min = usual.mask_feature_min;
  }
}

// Reads them; `is_on`: whether spans are masked where the file does not say.
template <class Options>
void read_span_masks(const JsonSettings& config, bool is_on, Options& options) {
  options.mask = config.get("apply_spec_augment", is_on);
  options.mask_time_probability = config.get("mask_time_prob", 0.05);
  options.mask_time_length = config.get("mask_time_length", int64_t{10});
  options.mask_time_min = config.get("mask_time_min_masks", int64_t{2});
  options.mask_feature_probability = config.get("mask_feature_prob", 0.0);
  options.mask_feature_length = config.get("mask_feature_length", int64_t{10});
  options.mask_feature_min = config.get("mask_feature_min_masks", int64_t{0});
  forget_idle_masks(options);
}

// Returns the settings that have an effect; others stay as in the source.
template <class Options>
nlohmann::ordered_json span_mask_json(const Options& options) {
  nlohmann::ordered_json settings = {{"apply_spec_augment", options.mask}};
  if (!options.mask && options.mask_time_probability > 0.0) return settings;
  settings["mask_time_prob"] = options.mask_time_probability;
  settings["mask_feature_prob"] = options.mask_feature_probability;
  if (options.mask_time_probability > 0.0) {
    settings["mask_time_length"] = options.mask_time_length;
    settings["mask_time_min_masks"] = options.mask_time_min;
  }
  if (options.mask_feature_probability > 0.0) {
    settings["mask_feature_length"] = options.mask_feature_length;
    settings["mask_feature_min_masks"] = options.mask_feature_min;
  }
  return settings;
}

}  // namespace sotto::models
