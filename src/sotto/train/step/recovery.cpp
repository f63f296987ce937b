#include "sotto/train/step/recovery.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto::train {

namespace {

// The result of the step, or why it ran out of memory. Objects held by the exception are released
// when the attempt returns.
struct Attempt {
  std::optional<StepResult> result;
  std::string reason;
};

Attempt attempt_step(Learner& learner, std::span<const data::Example> examples,
                     const StepSettings& settings) {
  try {
    return {.result = run_step(learner, examples, settings), .reason = {}};
  } catch (const std::exception& error) {
    std::optional<std::string> reason = out_of_memory_reason(error);
    // After an interrupted update a repeated step would differ.
    if (!reason || !learner.is_whole) throw;
    return {.result = std::nullopt, .reason = std::move(*reason)};
  }
}

// Messages of libraries that have no exception type for it.
constexpr std::array<std::string_view, 6> kPhrases = {
    "out of memory",  // "CUDA error: out of memory", "CUDA out of memory. Tried to allocate ..."
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "can't allocate memory",  // ATen's allocator of host memory
};

// Whether this step and later ones may be split under the limits: bf16 gradients may only be
// accumulated a limited number of times.
bool may_split(const Learner& learner, std::span<const data::Example> examples,
               const MicroBatchLimits& limits, const StepWatcher& watcher) {
  if (learner.gradient_type == at::kFloat) return true;
  int64_t most = std::ssize(split_step(*learner.model, examples, limits));
  if (watcher.most_micro_batches) most = std::max(most, watcher.most_micro_batches(limits));
  return most <= kMaxBf16Sums;
}

}  // namespace

std::optional<std::string> out_of_memory_reason(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const OutOfMemory*>(&error)) return ours->what();
  if (dynamic_cast<const Error*>(&error) != nullptr) return std::nullopt;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "the host has no more memory";
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  const bool is_said = std::ranges::any_of(
      kPhrases, [&](std::string_view phrase) { return text.find(phrase) != std::string::npos; });
  return is_said ? std::optional(std::move(text)) : std::nullopt;
}

MicroBatchLimits halved(const models::Model& model, std::span<const data::Example> examples,
                        const StepSettings& settings) {
  MicroBatchLimits half = settings.limits;
  int64_t longest = settings.largest_item.frames;
  int64_t most_frames = 0;
  int64_t most_utterances = 0;
  for (const std::vector<int64_t>& indices : split_step(model, examples, settings.limits)) {
    int64_t frames = 0;
    for (const int64_t index : indices) {
      const int64_t of_one =
          model.size_of(data::size_of(examples[static_cast<size_t>(index)])).frames;
      longest = std::max(longest, of_one);
      frames += of_one;
    }
    most_frames = std::max(most_frames, frames);
    most_utterances = std::max(most_utterances, std::ssize(indices));
  }
  if (settings.limits.is_adaptive && most_frames > longest) {
    half.max_frames = std::max(longest, most_frames / 2);
  } else {
    half.max_utterances = std::max<int64_t>(1, most_utterances / 2);
  }
  return half;
}

StepResult run_step_with_retries(Learner& learner, std::span<const data::Example> examples,
                                 StepSettings& settings, device::Arena& arena,
                                 const StepWatcher& watcher) {
  std::vector<std::string> tried;
  for (int64_t retry = 0;; ++retry) {
    arena.reset_peak();
    Attempt attempt = attempt_step(learner, examples, settings);
    if (attempt.result) return std::move(*attempt.result);
    const int64_t peak_bytes = arena.report().peak;
    tried.push_back(fmt::format("{}: {}", describe(settings.limits), format_bytes(peak_bytes)));
    const MicroBatchLimits half = halved(*learner.model, examples, settings);
    // Smaller micro-batches would not help, or would round gradients too often.
    const bool is_last =
        retry == kMaxRetries || (retry > 0 && !may_split(learner, examples, half, watcher));
    if (is_last) {
      throw OutOfMemory(
          {.attempted = fmt::format("step {}", settings.step),
           .found = fmt::format("out of memory after {} retries: {} Tried micro-batches and their "
                                "peaks: {}",
                                retry, attempt.reason, fmt::join(tried, "; ")),
           .hint =
               "Raise --memory, or choose a tier that keeps less; --resume continues from here."});
    }
    learner.release_caches();
    if (retry > 0) settings.limits = half;
    watcher.restarted({.step = settings.step,
                       .attempt = retry + 1,
                       .limits = settings.limits,
                       .reason = std::move(attempt.reason),
                       .peak_bytes = peak_bytes});
  }
}

}  // namespace sotto::train
