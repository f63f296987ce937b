// `sotto plan --for transformers`: the run for users who train in Python.
#pragma once

#include <filesystem>

#include "sotto/plan/run/made_plan.h"

namespace sotto::cli {

// Writes training_arguments.json into the folder and prints the memory of the equivalent training
// with transformers, as text or as JSON. Throws ConfigError where it would not fit.
void plan_for_transformers(const plan::MadePlan& made, const std::filesystem::path& folder,
                           bool json);

}  // namespace sotto::cli
