// The settings of a network of any family: a preset, and changes to it.
#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/core/error.h"
#include "sotto/models/families.h"
#include "sotto/models/model.h"

namespace sotto::models {

class ModelOptions {
 public:
  // The default network.
  ModelOptions() : ModelOptions(of_preset("small")) {}
  // Throws ConfigError for an unknown name.
  static ModelOptions of_preset(const std::string& name);
  // Returns the initial settings of a family: those of its first preset.
  static ModelOptions of_family(const Family& family);

  const Family& family() const { return *family_; }
  const Task& task() const { return *family_->task; }
  const std::string& preset() const { return preset_; }
  // Returns the Hugging Face id of the released model with the sizes of the preset; empty where
  // there is none.
  std::string pretrained_id() const { return family_->pretrained(preset_); }

  // The settings as the family's own struct. find() returns nullptr where they belong to another
  // family.
  template <class Options>
  Options& as() {
    SOTTO_ASSERT(std::any_cast<Options>(&settings_) != nullptr, "settings of {}", family_->name);
    return *std::any_cast<Options>(&settings_);
  }
  template <class Options>
  const Options& as() const {
    return const_cast<ModelOptions*>(this)->as<Options>();
  }
  template <class Options>
  const Options* find() const {
    return std::any_cast<Options>(&settings_);
  }

  void visit(OptionVisitor& visitor);
  void validate() const;

  // The functions of Family, for these settings.
  int64_t sample_rate() const { return family_->sample_rate(settings_); }
  int64_t min_rows(int64_t feature_dim) const { return family_->min_rows(settings_, feature_dim); }
  int64_t max_rows(int64_t feature_dim) const { return family_->max_rows(settings_, feature_dim); }
  std::optional<data::PromptRules> prompts() const { return family_->prompts(settings_); }
  // Returns the entries of the vocabulary that the network is built for, else the usual number of
  // its task.
  int64_t usual_vocabulary() const;
  void check_rows(const data::TextRows::Options& rows) const {
    family_->check_rows(settings_, rows);
  }
  std::string describe(const DataShape& shape) const { return family_->describe(settings_, shape); }
  std::vector<Saving> savings() const { return family_->savings(settings_); }
  std::optional<SplitDependence> split_dependence() const {
    return family_->split_dependence(settings_);
  }
  // Throws ConfigError for a setting without effect that differs from its default and from `given`,
  // the initial settings of a preset or a Hugging Face folder.
  void check_effects(const ModelOptions& given) const;
  // Returns the same network with a single layer.
  ModelOptions with_one_layer() const;
  // Rows whose logits the loss computes at once (0: chosen for the device); absent where the
  // network has no such setting.
  bool has_loss_rows() const;
  int64_t loss_rows() const;
  void set_loss_rows(int64_t rows);

  // Declares and allocates all parameters; on Meta they have no storage. `compute`: the type of
  // activations.
  std::unique_ptr<Model> make(const DataShape& shape, const nn::ParameterAllocation& allocation,
                              at::ScalarType compute = at::kFloat) const {
    return family_->make(settings_, shape, allocation, compute);
  }

 private:
  ModelOptions(const Family& family, const std::string& preset)
      : preset_(preset), family_(&family), settings_(family.settings(preset)) {}

  std::string preset_;
  const Family* family_;
  std::any settings_;
};

}  // namespace sotto::models
