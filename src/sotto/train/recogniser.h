// A trained network at work: what `sotto eval` and `sotto transcribe` use. It takes the weights of
// a checkpoint and the activations of one micro-batch, inside a budget.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sotto/device/arena.h"
#include "sotto/device/run_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/train/checkpoint.h"
#include "sotto/train/dry_run.h"
#include "sotto/train/evaluation.h"

namespace sotto::train {

class Recogniser {
 public:
  // `checkpoint`: the folder of one, or of a run, of which the best is taken, else the newest.
  // Throws DataError where there is none, or it cannot be read.
  Recogniser(const std::filesystem::path& checkpoint, int64_t budget_bytes,
             const device::RunDevice& device = {});

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const std::filesystem::path& folder() const { return folder_; }

  // On a manifest, or a text for a language model. `progress` hears how many items are done of how
  // many. Throws ConfigError where the longest does not fit into the budget.
  Evaluation evaluate(const std::filesystem::path& path,
                      const std::function<void(int64_t, int64_t)>& progress = {});

  // The texts of audio files, in their order.
  std::vector<std::string> transcribe(const std::vector<std::filesystem::path>& files);

  // Most bytes that were taken so far.
  int64_t peak_bytes() const { return arena_->report().peak; }

 private:
  std::filesystem::path folder_;
  Checkpoint checkpoint_;
  device::RunDevice device_;
  int64_t arena_bytes_;
  device::StagingBuffer staging_;
  DryRun dry_;
  // Shared, because tensors that outlive this object hold blocks of it.
  std::shared_ptr<device::Arena> arena_;
  device::ArenaGuard guard_;
  device::TargetScope target_;
  std::unique_ptr<models::Model> model_;
};

}  // namespace sotto::train
