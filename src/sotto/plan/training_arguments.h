// A run's configuration as Hugging Face `TrainingArguments`, for users who train in Python.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sotto/plan/transformers_estimate.h"
#include "sotto/train/step/run_config.h"

namespace sotto::plan {

struct TrainingArguments {
  // Arguments of TrainingArguments(**json).
  nlohmann::ordered_json json;
  // Settings of the run without a corresponding argument.
  std::vector<std::string> notes;
};

TrainingArguments training_arguments(const train::RunConfig& config,
                                     const TransformersChoice& choice, int64_t steps_per_epoch);

}  // namespace sotto::plan
