// The stages of a run on its data: how many samples, steps and seconds each has. A run without
// stages is one stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/data/batch/sampler.h"
#include "sotto/train/step/run_config.h"

namespace sotto::train {

struct Stage {
  // As in the configuration: "25%".
  std::string name;
  int64_t num_samples = 0;
  int64_t steps_per_epoch = 0;
  int64_t num_steps = 0;
  // Seconds of audio, or tokens, of all its steps.
  double length = 0.0;
  optim::ScheduleOptions schedule = {};
};

// Returns the order of samples in a stage with this many of them; 0: all.
data::SamplerOptions sampler_options(const RunConfig& config, int64_t num_samples = 0);

// Returns the stages of a run on items of these lengths, at least one. Throws ConfigError where the
// data is too small for them, or where they shrink.
std::vector<Stage> stages_of(const RunConfig& config, const std::vector<float>& lengths);

// Returns the largest number of samples of a stage; 0: all.
int64_t largest_stage(const RunConfig& config, int64_t available);

}  // namespace sotto::train
