// The training step on tensors without storage, in an arena without memory: reports how much memory
// it takes, by category and exact to the byte. It is the only memory model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "sotto/data/batch/example.h"
#include "sotto/decode/decoding.h"
#include "sotto/device/arena.h"
#include "sotto/device/target.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

class DryRun {
 public:
  // What is set up: the network and the optimizer, or the network alone.
  enum class Purpose { kTraining, kRecognition };

  // `target`: the device that is simulated.
  DryRun(const RunConfig& config, const models::DataShape& shape, Purpose purpose,
         const device::Target& target = {});
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  const models::Model& model() const { return *model_; }
  const Task& task() const { return task_; }

  // Sets the search that recognise() includes; by default it is that of the configuration. Throws
  // ConfigError for a setting that has no effect on the network.
  void set_decoding(const decode::DecodeOptions& options, bool has_times = false);

  // Reports the memory of the last run; before the first one, that of setting up.
  device::MemoryReport report() const { return arena_->report(); }

  // Type of the gradients of large matrices.
  at::ScalarType gradient_type() const { return gradient_type_; }

  // Reports the memory of one step, with its micro-batches run in sequence; values of examples are
  // not read.
  device::MemoryReport run_step(std::span<const data::Example> examples,
                                const StepSettings& settings);

  // Reports the memory of one micro-batch run as a step of its own, with no layers dropped.
  device::MemoryReport run_micro_batch(std::span<const data::Example> examples,
                                       const nn::LayerTiers& tier);

  // Like run_step(), but records the timeline.
  device::MemoryReport trace_step(std::span<const data::Example> examples,
                                  const StepSettings& settings);

  // Reports the memory of recognising these examples in one micro-batch.
  device::MemoryReport recognise(std::span<const data::Example> examples);

 private:
  device::MemoryReport observe(const std::function<void()>& action);

  const Task& task_;
  decode::DecodingOptions decoding_;
  device::Target target_;
  at::ScalarType gradient_type_;
  // Shared, because tensors that outlive this object hold blocks of it.
  std::shared_ptr<device::Arena> arena_;
  std::unique_ptr<Learner> learner_;           // set for kTraining
  std::unique_ptr<models::Model> recogniser_;  // set for kRecognition
  models::Model* model_ = nullptr;             // the model of either
};

}  // namespace sotto::train
