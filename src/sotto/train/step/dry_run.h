// The training step on tensors without storage, through an arena over nothing: how much memory it
// takes, by category and to the byte. The only memory model there is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "sotto/data/batch/example.h"
#include "sotto/device/arena.h"
#include "sotto/device/target.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

class DryRun {
 public:
  // A run without storage: the network and the optimizer, or the network alone.
  enum class Purpose { kTraining, kRecognition };

  // `target`: what the tensors stand for.
  DryRun(const RunConfig& config, const models::DataShape& shape, Purpose purpose,
         const device::Target& target = {});
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  const models::Model& model() const { return *model_; }
  const Task& task() const { return task_; }
  // Of large matrices.
  at::ScalarType gradient_type() const { return gradient_type_; }

  // What one step takes, all of its micro-batches one after the other; values of examples are not
  // read.
  device::MemoryReport run_step(std::span<const data::Example> examples,
                                const StepSettings& settings);

  // What one micro-batch takes as a step of its own, with all of its layers.
  device::MemoryReport run_micro_batch(std::span<const data::Example> examples,
                                       const nn::LayerTiers& tier);

  // As run_step(), with the timeline of it.
  device::MemoryReport trace_step(std::span<const data::Example> examples,
                                  const StepSettings& settings);

  // What recognising these examples in one micro-batch takes.
  device::MemoryReport recognise(std::span<const data::Example> examples);

 private:
  device::MemoryReport observe(const std::function<void()>& action);

  const Task& task_;
  device::Target target_;
  at::ScalarType gradient_type_;
  // Shared, because tensors that outlive this object hold blocks of it.
  std::shared_ptr<device::Arena> arena_;
  std::unique_ptr<Learner> learner_;           // of kTraining
  std::unique_ptr<models::Model> recogniser_;  // of kRecognition
  models::Model* model_ = nullptr;             // of either
};

}  // namespace sotto::train
