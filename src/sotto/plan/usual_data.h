// Lengths to plan with where no data is named: those of LibriSpeech, or full rows of text.
#pragma once

#include "sotto/data/batch/example_list.h"
#include "sotto/models/model.h"
#include "sotto/train/step/run_config.h"

namespace sotto::plan {

// Duration of all of LibriSpeech's train-clean-100.
inline constexpr double kUsualSeconds = 100.59 * 3600.0;

// Returns a thousand utterances with the length distribution of LibriSpeech's train-clean-100.
data::ExampleList usual_data(const train::RunConfig& config);

// Returns matching shapes.
models::DataShape usual_shape(const train::RunConfig& config);

}  // namespace sotto::plan
