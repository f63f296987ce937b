// Lengths to plan with where no data is named: those of LibriSpeech, or whole rows of text.
#pragma once

#include "sotto/data/batch/example_list.h"
#include "sotto/models/model.h"
#include "sotto/train/step/run_config.h"

namespace sotto::plan {

// Of all of LibriSpeech's train-clean-100.
inline constexpr double kUsualSeconds = 100.59 * 3600.0;

// Utterances of LibriSpeech's train-clean-100, a thousand that have its distribution.
data::ExampleList usual_data(const train::RunConfig& config);

// Shapes to go with them.
models::DataShape usual_shape(const train::RunConfig& config);

}  // namespace sotto::plan
