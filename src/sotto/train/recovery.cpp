#include "sotto/train/recovery.h"

#include <algorithm>
#include <optional>

#include "sotto/core/error.h"

namespace sotto::train {

namespace {

// The step, or why it ran out of memory. What the exception held is gone when this returns.
struct Attempt {
  std::optional<StepResult> result;
  std::string reason;
};

Attempt attempt_step(Learner& learner, std::span<const data::Example> examples,
                     const StepSettings& settings) {
  try {
    return {.result = run_step(learner, examples, settings), .reason = {}};
  } catch (const OutOfMemory& error) {
    return {.result = std::nullopt, .reason = error.what()};
  }
}

}  // namespace

MicroBatchLimits halved(const models::Model& model, std::span<const data::Example> examples,
                        const MicroBatchLimits& limits) {
  MicroBatchLimits half = limits;
  if (!limits.is_adaptive) {
    const int64_t most = std::min(limits.max_utterances, std::ssize(examples));
    half.max_utterances = std::max<int64_t>(1, most / 2);
    return half;
  }
  int64_t longest = 0;
  int64_t largest = 0;
  for (const std::vector<int64_t>& places : split_step(model, examples, limits)) {
    int64_t frames = 0;
    for (const int64_t place : places) {
      const int64_t of_one = model.num_frames(examples[static_cast<size_t>(place)].rows);
      longest = std::max(longest, of_one);
      frames += of_one;
    }
    largest = std::max(largest, frames);
  }
  half.max_frames = std::max(longest, largest / 2);
  return half;
}

StepResult run_step_with_retries(Learner& learner, std::span<const data::Example> examples,
                                 StepSettings& settings,
                                 const std::function<void(const Restart&)>& on_restart) {
  for (int64_t retry = 0;; ++retry) {
    Attempt attempt = attempt_step(learner, examples, settings);
    if (attempt.result) return std::move(*attempt.result);
    if (retry == kMaxRetries) {
      throw OutOfMemory(
          {.attempted = fmt::format("step {}", settings.step),
           .found = fmt::format("no memory after {} retries: {}", kMaxRetries, attempt.reason),
           .hint =
               "Raise --memory, or choose a tier that keeps less; --resume goes on from here."});
    }
    if (retry > 0) settings.limits = halved(*learner.model, examples, settings.limits);
    on_restart({.step = settings.step,
                .attempt = retry + 1,
                .limits = settings.limits,
                .reason = std::move(attempt.reason)});
  }
}

}  // namespace sotto::train
