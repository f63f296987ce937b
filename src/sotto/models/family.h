// A family of networks as seen by the rest of the program: its task, its presets, and functions on
// settings that only the family itself interprets. It has no training code.
//
//   Family wav2vec2_family() {
//     return make_family<Wav2Vec2Options>(
//         {.name = "wav2vec2", .task = kTranscription, .presets = ..., .make = ...});
//   }
//
// families.cpp lists all of them; docs/adding_a_model.md shows how to add one.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <any>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/core/task.h"
#include "sotto/data/batch/text_rows.h"
#include "sotto/data/text/whisper_prompts.h"
#include "sotto/models/files/tensor_file.h"
#include "sotto/models/model.h"
#include "sotto/models/reduction.h"

namespace sotto {
class JsonSettings;
}

namespace sotto::models {

struct HuggingFaceModel;
struct HuggingFaceConfig;

// A setting that saves memory and changes what is learned.
struct Saving {
  // A key of the network's settings, such as "freeze_layers".
  std::string key;
  std::string value;
  // Its effect, in one clause.
  std::string effect;
};

// A setting with which the split of a step into micro-batches changes the result.
struct SplitDependence {
  // A key of the network's settings, such as "convolution_norm".
  std::string key;
  std::string value;
  // Why it does, in one clause.
  std::string reason;
};

// The representation of a family's networks in Hugging Face folders.
struct HuggingFaceFormat {
  // Values in config.json.
  std::vector<std::string_view> model_types;
  // Returns which tensors a folder may have in addition to those of the network, or lack.
  std::function<ImportRules()> rules;
  // Reads config.json and other relevant files of its folder. Throws ConfigError where it requires
  // something that is not supported.
  std::function<HuggingFaceModel(const JsonSettings& config, const std::filesystem::path& folder)>
      read;
  // Returns the vocabulary and the blank of a folder that has a head. Throws DataError where it has
  // none.
  std::function<DataShape(const JsonSettings& config, const std::filesystem::path& folder)> shape;
  // Writes config.json and other files that transformers needs beside the weights.
  std::function<void(const std::filesystem::path& folder, const HuggingFaceConfig& config)> write;
};

// The functions of a family on its own struct of settings, which has visit() and validate().
template <class Options>
struct FamilySpec {
  struct Preset {
    std::string name;
    Options options = {};
    // Hugging Face id of the released model with these sizes; empty where there is none.
    std::string pretrained = {};
  };

  std::string_view name;
  const Task& task;
  // The configuration file that shows all of its settings.
  std::string_view example;
  // At least one; names are unique among all families.
  std::vector<Preset> presets;
  std::unique_ptr<Model> (*make)(const Options&, const DataShape&, const nn::ParameterAllocation&,
                                 at::ScalarType compute);
  // Reduces the network to one layer.
  void (*keep_one_layer)(Options&);
  // Describes the network for model cards; absent: its name is used.
  std::string (*describe)(const Options&, const DataShape&) = nullptr;
  // Sample rate of waveforms in Hz; absent where it reads none.
  int64_t (*sample_rate)(const Options&) = nullptr;
  // Minimum number of samples or stored frames that give one frame; absent: 1.
  int64_t (*min_rows)(const Options&, int64_t feature_dim) = nullptr;
  // Maximum number of samples or stored frames that the network has positions for; absent: any.
  int64_t (*max_rows)(const Options&, int64_t feature_dim) = nullptr;
  // The labels that come before the text of an utterance, as Whisper has them; absent: none.
  data::PromptRules (*prompts)(const Options&) = nullptr;
  // Throws ConfigError for a setting without effect that differs from `given`, the initial
  // settings.
  void (*check_effects)(const Options&, const Options& given) = nullptr;
  // Throws ConfigError for rows of text that the network cannot read; absent: never.
  void (*check_rows)(const Options&, const data::TextRows::Options& rows) = nullptr;
  // Settings that save memory, from the least to the most costly.
  std::vector<Saving> (*savings)(const Options&) = nullptr;
  // Returns the setting `loss_rows`, or null if the loss is not computed in chunks of rows; absent:
  // never.
  int64_t* (*loss_rows)(Options&) = nullptr;
  // Returns the setting with which results depend on the split, or none; absent: never.
  std::optional<SplitDependence> (*split_dependence)(const Options&) = nullptr;
  // Reduction of a run that names a preset and no reduction; absent: that of all runs.
  std::optional<Reduction> reduction = std::nullopt;
  std::optional<HuggingFaceFormat> hugging_face = std::nullopt;
};

// FamilySpec::make for a network whose constructor takes those arguments.
template <class Network, class Options>
std::unique_ptr<Model> make_network(const Options& options, const DataShape& shape,
                                    const nn::ParameterAllocation& allocation,
                                    at::ScalarType compute) {
  return std::make_unique<Network>(options, shape, allocation, compute);
}

// Sizes in which presets differ.
struct TransformerSizes {
  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  int64_t hidden = 0;
};

// The functions of FamilySpec with type-erased settings.
struct Family {
  std::string_view name;
  const Task* task = nullptr;
  std::string_view example;
  std::vector<std::string> presets;
  std::function<std::any(std::string_view preset)> settings;
  std::function<std::string(std::string_view preset)> pretrained;
  std::function<OptionGroup(std::any&)> group;
  std::function<std::string(const std::any&, const DataShape&)> describe;
  std::function<std::unique_ptr<Model>(const std::any&, const DataShape&,
                                       const nn::ParameterAllocation&, at::ScalarType)>
      make;
  std::function<void(std::any&)> keep_one_layer;
  std::function<int64_t(const std::any&)> sample_rate;
  std::function<int64_t(const std::any&, int64_t feature_dim)> min_rows;
  // Returns 0 where there is no limit.
  std::function<int64_t(const std::any&, int64_t feature_dim)> max_rows;
  std::function<std::optional<data::PromptRules>(const std::any&)> prompts;
  std::function<void(const std::any&, const std::any& given)> check_effects;
  std::function<void(const std::any&, const data::TextRows::Options& rows)> check_rows;
  std::function<std::vector<Saving>(const std::any&)> savings;
  // Returns nullptr where there is no such setting.
  std::function<int64_t*(std::any&)> loss_rows;
  std::function<std::optional<SplitDependence>(const std::any&)> split_dependence;
  std::optional<Reduction> reduction;
  std::optional<HuggingFaceFormat> hugging_face;
};

template <class Options>
Family make_family(FamilySpec<Options> spec) {
  const auto of = [](const std::any& any) -> const Options& {
    return *std::any_cast<Options>(&any);
  };
  const auto changed = [](std::any& any) -> Options& { return *std::any_cast<Options>(&any); };
  Family family;
  family.name = spec.name;
  family.task = &spec.task;
  family.example = spec.example;
  for (const auto& each : spec.presets) family.presets.push_back(each.name);
  const auto preset = [presets = spec.presets](std::string_view name) {
    const auto found = std::ranges::find(presets, name, &FamilySpec<Options>::Preset::name);
    SOTTO_ASSERT(found != presets.end(), "no preset '{}'", name);
    return *found;
  };
  family.settings = [=](std::string_view name) -> std::any { return preset(name).options; };
  family.pretrained = [=](std::string_view name) { return preset(name).pretrained; };
  family.group = [=](std::any& any) { return as_group(changed(any)); };
  family.describe = [=](const std::any& any, const DataShape& shape) {
    if (spec.describe) return spec.describe(of(any), shape);
    return fmt::format("A network of the family {}", spec.name);
  };
  family.make = [=](const std::any& any, const DataShape& shape,
                    const nn::ParameterAllocation& allocation, at::ScalarType compute) {
    return spec.make(of(any), shape, allocation, compute);
  };
  family.keep_one_layer = [=](std::any& any) { spec.keep_one_layer(changed(any)); };
  family.sample_rate = [=](const std::any& any) {
    return spec.sample_rate ? spec.sample_rate(of(any)) : 0;
  };
  family.min_rows = [=](const std::any& any, int64_t feature_dim) {
    return spec.min_rows ? spec.min_rows(of(any), feature_dim) : 1;
  };
  family.max_rows = [=](const std::any& any, int64_t feature_dim) {
    return spec.max_rows ? spec.max_rows(of(any), feature_dim) : 0;
  };
  family.prompts = [=](const std::any& any) {
    return spec.prompts ? std::optional(spec.prompts(of(any))) : std::nullopt;
  };
  family.check_effects = [=](const std::any& any, const std::any& given) {
    if (spec.check_effects) spec.check_effects(of(any), of(given));
  };
  family.check_rows = [=](const std::any& any, const data::TextRows::Options& rows) {
    if (spec.check_rows) spec.check_rows(of(any), rows);
  };
  family.savings = [=](const std::any& any) {
    return spec.savings ? spec.savings(of(any)) : std::vector<Saving>{};
  };
  family.loss_rows = [=](std::any& any) {
    return spec.loss_rows ? spec.loss_rows(changed(any)) : nullptr;
  };
  family.split_dependence = [=](const std::any& any) {
    return spec.split_dependence ? spec.split_dependence(of(any)) : std::nullopt;
  };
  family.reduction = spec.reduction;
  family.hugging_face = spec.hugging_face;
  return family;
}

}  // namespace sotto::models
