#include "sotto/train/step/stages.h"

#include <algorithm>

namespace sotto::train {

namespace {

// Returns a stage without name and length in steps: its samples and an epoch of it.
Stage measure(const RunConfig& config, const std::vector<float>& lengths, int64_t num_samples) {
  const data::EpochOrder epoch =
      data::Sampler(sampler_options(config, num_samples), lengths).epoch(0);
  Stage stage{.name = {}, .num_samples = num_samples, .steps_per_epoch = epoch.num_steps()};
  for (int64_t step = 0; step < epoch.num_steps(); ++step)
    for (const uint32_t index : epoch.utterances(step)) stage.length += double{lengths[index]};
  return stage;
}

void set_steps(Stage& stage, int64_t num_steps) {
  stage.num_steps = num_steps;
  stage.length *= static_cast<double>(num_steps) / static_cast<double>(stage.steps_per_epoch);
}

}  // namespace

data::SamplerOptions sampler_options(const RunConfig& config, int64_t num_samples) {
  return {.seed = static_cast<uint64_t>(config.seed),
          .batch = config.effective_batch,
          .curriculum = config.curriculum,
          .num_samples = num_samples};
}

std::vector<Stage> stages_of(const RunConfig& config, const std::vector<float>& lengths) {
  const auto available = static_cast<int64_t>(lengths.size());
  std::vector<Stage> stages;
  if (config.stages.empty()) {
    Stage& only = stages.emplace_back(measure(config, lengths, available));
    only.name = StageSize{}.to_string();
    only.schedule = config.optimizer.schedule;
    set_steps(only, total_steps(config, only.steps_per_epoch));
    return stages;
  }
  const std::vector<int64_t> sizes = stage_sizes(config.stages, available);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const StageOptions& options = config.stages[i];
    Stage& stage = stages.emplace_back(measure(config, lengths, sizes[i]));
    stage.name = options.samples.to_string();
    stage.schedule = options.schedule;
    set_steps(stage, options.steps > 0 ? options.steps : options.epochs * stage.steps_per_epoch);
  }
  return stages;
}

int64_t largest_stage(const RunConfig& config, int64_t available) {
  if (config.stages.empty()) return 0;
  return std::min(config.stages.back().samples.of(available), available);
}

}  // namespace sotto::train
