// What happens when a step runs out of memory: it is unwound and run again, first as it was, then
// with halved limits. No weight has changed when OutOfMemory is thrown, and what a step draws at
// random is keyed by utterance; so the first retry gives the same bits, and the others the same to
// rounding.
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
  // With which it goes on.
  MicroBatchLimits limits;
  std::string reason;
  // What the attempt before it took of the arena, until it failed.
  int64_t peak_bytes = 0;
};

// Who follows a step that may be run again.
struct StepWatcher {
  // Told before the step is run again.
  std::function<void(const Restart&)> restarted;
  // The most micro-batches that a step of the epoch would have under limits; empty: nothing is
  // known of other steps.
  std::function<int64_t(const MicroBatchLimits&)> most_micro_batches = {};
};

// Runs the step in the arena. Limits that were learned are left in `settings`, and told to the
// watcher before they are used. Throws OutOfMemory after kMaxRetries, with the limits of each
// attempt and what it took. A failure after the update has begun is thrown as it is.
StepResult run_step_with_retries(Learner& learner, std::span<const data::Example> examples,
                                 StepSettings& settings, device::Arena& arena,
                                 const StepWatcher& watcher);

// Why memory ran out, whoever says it: the arena, ATen, the driver, cuBLAS, cuDNN or the C++
// library. None where the error is another.
std::optional<std::string> out_of_memory_reason(const std::exception& error);

// Limits under which the largest micro-batch of the step is half as large: in frames, down to the
// largest item of the run; there, in utterances.
MicroBatchLimits halved(const models::Model& model, std::span<const data::Example> examples,
                        const StepSettings& settings);

}  // namespace sotto::train
