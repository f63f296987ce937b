// Recovery from a step that runs out of memory: it is unwound and run again, first unchanged, then
// with halved limits. No weight has changed when OutOfMemory is thrown, and random numbers are
// keyed by utterance; therefore the first retry is bit-identical, and the others are identical up
// to rounding, unless batch norms are trained: their results depend on the split.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "sotto/device/arena.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

inline constexpr int64_t kMaxRetries = 3;

// One restart, as it is logged.
struct Restart {
  int64_t step = 0;
  int64_t attempt = 0;  // from 1
  // Limits of the new attempt.
  MicroBatchLimits limits;
  std::string reason;
  // Peak arena bytes of the failed attempt.
  int64_t peak_bytes = 0;
};

// Callbacks for a step that may be run again.
struct StepWatcher {
  // Called before the step is run again.
  std::function<void(const Restart&)> restarted;
  // Returns the maximum number of micro-batches per step of the epoch under given limits; empty:
  // other steps are unknown.
  std::function<int64_t(const MicroBatchLimits&)> most_micro_batches = {};
};

// Runs the step in the arena. Learned limits are stored in `settings`, and reported to the watcher
// before they are used. Throws OutOfMemory after kMaxRetries, with the limits and memory of each
// attempt. A failure after the update has begun is rethrown unchanged.
StepResult run_step_with_retries(Learner& learner, std::span<const data::Example> examples,
                                 StepSettings& settings, device::Arena& arena,
                                 const StepWatcher& watcher);

// Returns why memory ran out, whichever component reports it: the arena, ATen, the driver, cuBLAS,
// cuDNN or the C++ library. None for other errors.
std::optional<std::string> out_of_memory_reason(const std::exception& error);

// Returns limits under which the largest micro-batch of the step is half as large: in frames, down
// to the largest item of the run; from there on in utterances.
MicroBatchLimits halved(const models::Model& model, std::span<const data::Example> examples,
                        const StepSettings& settings);

}  // namespace sotto::train
