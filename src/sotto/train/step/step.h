// One update of the weights: forward and backward of its micro-batches, clip, update. The real run
// and the dry run go through this same code.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/limits.h"
#include "sotto/data/batch/example.h"
#include "sotto/device/host_memory.h"
#include "sotto/device/staging_buffer.h"
#include "sotto/models/model.h"
#include "sotto/nn/host_tape.h"
#include "sotto/nn/layer_tiers.h"
#include "sotto/nn/tape.h"
#include "sotto/optim/optimizer.h"
#include "sotto/train/step/run_config.h"

namespace sotto::train {

// The network and its optimizer on one device: what a checkpoint holds.
struct Learner {
  // On Meta a dry one. `host_bytes`: host memory that it may take besides.
  Learner(const RunConfig& config, const models::DataShape& shape, const at::Device& device,
          int64_t host_bytes = device::HostMemory::kUnlimited);

  // Gives back host memory that is only kept for the next micro-batch. Returns how much.
  int64_t release_caches();

  at::Device device;
  at::ScalarType gradient_type;
  // For copies to a GPU, what tier `host` keeps, and state of the optimizer.
  device::HostMemory host;
  device::StagingBuffer staging;
  nn::HostTape host_tape;
  // A pointer, because the optimizer refers to its parameters.
  std::unique_ptr<models::Model> model;
  optim::Optimizer optimizer;
  // False while an update is under way: a failure then leaves weights and state half changed.
  bool is_whole = true;
};

// The network of a configuration. Without `trains` it has no gradients.
std::unique_ptr<models::Model> make_model(const RunConfig& config, const models::DataShape& shape,
                                          const at::Device& device, bool trains);

// What is common to all steps of a run, and which of them this is.
struct StepSettings {
  models::Reduction reduction = models::Reduction::kCtcMean;
  nn::LayerTiers tier = nn::Tier::kNorms;
  uint64_t seed = 1;
  int64_t step = 1;  // from 1
  int64_t total_steps = 1;
  // What the schedule's rate is multiplied by: optim::Plateau::factor.
  double rate_factor = 1.0;
  // What the losses are multiplied by before backward, and gradients divided by in the update.
  double loss_scale = 1.0;
  // Off for the worst that a step can take.
  bool drops_layers = true;
  MicroBatchLimits limits = {};
  // The largest item of the run: lowered limits stay above it, so that no later step exceeds them.
  LargestItem largest_item = {};
};

// One term of a step's loss, by the reduction, over the whole step.
struct NamedLoss {
  std::string name;
  // What it is multiplied by in the sum.
  double weight = 1.0;
  double loss = 0.0;
};

struct StepResult {
  // The sum of the terms by their weights.
  double loss = 0.0;
  std::vector<NamedLoss> terms = {};
  double gradient_norm = 0.0;
  double rate = 0.0;
  // False where the gradients are not finite: the weights are as before.
  bool is_updated = false;
  int64_t num_micro_batches = 0;
  // Until all work was on its way to a GPU; what the step took beyond that, the host waited.
  double launch_seconds = 0.0;
  // Frames of the encoder.
  int64_t num_frames = 0;
  // Places in the manifest of utterances with too few frames for their labels; they count as 0.
  std::vector<int64_t> infeasible = {};
};

// Splits a step of such sizes under the limits. Throws DataError where an item alone exceeds them;
// name_of says what the one at a place is called.
std::vector<std::vector<int64_t>> split_sizes(const models::Model& model,
                                              std::span<const data::ExampleSize> sizes,
                                              const MicroBatchLimits& limits,
                                              const std::function<std::string(size_t)>& name_of);

// The same of examples.
std::vector<std::vector<int64_t>> split_step(const models::Model& model,
                                             std::span<const data::Example> examples,
                                             const MicroBatchLimits& limits);

// Throws OutOfMemory before any weight has changed; ConfigError where gradients in bf16 would be
// added to too often.
StepResult run_step(Learner& learner, std::span<const data::Example> examples,
                    const StepSettings& settings);

}  // namespace sotto::train
