// One update of the weights: forward and backward of its micro-batches, clip, update. The real run
// and the dry run share this code.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/limits.h"
#include "sotto/data/batch/example.h"
#include "sotto/device/arena.h"
#include "sotto/device/host_memory.h"
#include "sotto/device/staging_buffer.h"
#include "sotto/models/model.h"
#include "sotto/nn/host_tape.h"
#include "sotto/nn/layer_tiers.h"
#include "sotto/nn/tape.h"
#include "sotto/optim/optimizer.h"
#include "sotto/train/step/run_config.h"

namespace sotto::train {

// The network and its optimizer on one device: the contents of a checkpoint.
struct Learner {
  // On the Meta device it has no storage. `host_bytes`: host memory that it may use in addition.
  Learner(const RunConfig& config, const models::DataShape& shape, const at::Device& device,
          int64_t host_bytes = device::HostMemory::kUnlimited);

  // Releases host memory that is only retained for the next micro-batch. Returns the number of
  // bytes.
  int64_t release_caches();

  at::Device device;
  at::ScalarType gradient_type;
  // Host memory for copies to a GPU, activations of tier `host`, and optimizer state.
  device::HostMemory host;
  device::StagingBuffer staging;
  nn::HostTape host_tape;
  // A pointer, because the optimizer refers to its parameters.
  std::unique_ptr<models::Model> model;
  optim::Optimizer optimizer;
  // False during an update: a failure then leaves weights and state partially updated.
  bool is_whole = true;
};

// Creates the network of a configuration. Without `trains` it has no gradients.
std::unique_ptr<models::Model> make_model(const RunConfig& config, const models::DataShape& shape,
                                          const at::Device& device, bool trains);

// Settings common to all steps of a run, and the number of this step.
struct StepSettings {
  models::Reduction reduction = models::Reduction::kCtcMean;
  nn::LayerTiers tier = nn::Tier::kNorms;
  uint64_t seed = 1;
  int64_t step = 1;  // from 1
  // Number of steps that the schedule covers, and of those before the first of them.
  int64_t total_steps = 1;
  int64_t schedule_begin = 0;
  // Multiplier of the schedule's rate: optim::Plateau::factor.
  double rate_factor = 1.0;
  // Multiplier of the losses before backward; the update divides gradients by it.
  double loss_scale = 1.0;
  // False when measuring the worst case of a step.
  bool drops_layers = true;
  MicroBatchLimits limits = {};
  // The largest item of the run: lowered limits stay above it, so that no later step exceeds them.
  LargestItem largest_item = {};
};

// One term of a step's loss, reduced over the whole step.
struct NamedLoss {
  std::string name;
  // Weight in the total loss.
  double weight = 1.0;
  double loss = 0.0;
};

struct StepResult {
  // Weighted sum of the terms.
  double loss = 0.0;
  std::vector<NamedLoss> terms = {};
  double gradient_norm = 0.0;
  double rate = 0.0;
  // False where gradients are not finite: the weights are unchanged.
  bool is_updated = false;
  int64_t num_micro_batches = 0;
  // Seconds until all work was submitted to a GPU; for the rest of the step the host waited.
  double launch_seconds = 0.0;
  // Live bytes in the device's arena between forward and backward of a micro-batch, the most of
  // any; and after the last backward, before the update.
  int64_t after_forward_bytes = 0;
  int64_t after_backward_bytes = 0;
  // Number of encoder frames.
  int64_t num_frames = 0;
  // Manifest positions of utterances with too few frames for their labels; their CTC loss counts as
  // 0.
  std::vector<int64_t> infeasible = {};
};

// Splits a step with items of these sizes under the limits. Throws DataError where a single item
// exceeds them; name_of returns the name of the item at a position.
std::vector<std::vector<int64_t>> split_sizes(const models::Model& model,
                                              std::span<const data::ExampleSize> sizes,
                                              const MicroBatchLimits& limits,
                                              const std::function<std::string(size_t)>& name_of);

// Splits a step of examples in the same way.
std::vector<std::vector<int64_t>> split_step(const models::Model& model,
                                             std::span<const data::Example> examples,
                                             const MicroBatchLimits& limits);

// Returns the memory of a step that has just run in this arena, including the learner's host
// memory.
device::MemoryReport memory_of_step(const device::Arena& arena, const Learner& learner,
                                    const StepResult& result);

// Throws OutOfMemory before any weight has changed; ConfigError where bf16 gradients would be
// accumulated too often.
StepResult run_step(Learner& learner, std::span<const data::Example> examples,
                    const StepSettings& settings);

}  // namespace sotto::train
