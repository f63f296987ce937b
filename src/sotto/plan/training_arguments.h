// A run's configuration as the `TrainingArguments` of Hugging Face, for people who stay in Python.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sotto/plan/transformers_estimate.h"
#include "sotto/train/step/run_config.h"

namespace sotto::plan {

struct TrainingArguments {
  // What TrainingArguments(**json) takes.
  nlohmann::ordered_json json;
  // Settings of the run that it has no argument for.
  std::vector<std::string> notes;
};

TrainingArguments training_arguments(const train::RunConfig& config,
                                     const TransformersChoice& choice, int64_t steps_an_epoch);

}  // namespace sotto::plan
