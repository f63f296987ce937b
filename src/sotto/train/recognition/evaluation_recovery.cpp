#include "sotto/train/recognition/evaluation_recovery.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "sotto/train/step/fit.h"
#include "sotto/train/step/recovery.h"

namespace sotto::train {

namespace {

struct Attempt {
  std::optional<Evaluation> evaluation;
  std::string reason;
};

// Objects held by the exception are released when the attempt returns.
Attempt attempt_evaluation(const EvaluationAttempts& attempts, const MicroBatchLimits& limits,
                           bool is_last) {
  try {
    return {.evaluation = attempts.run(limits), .reason = {}};
  } catch (const std::exception& error) {
    std::optional<std::string> reason = out_of_memory_reason(error);
    if (!reason || is_last) throw;
    return {.evaluation = std::nullopt, .reason = std::move(*reason)};
  }
}

MicroBatchLimits halved(const MicroBatchLimits& limits, const LargestItem& largest) {
  MicroBatchLimits half = limits;
  half.max_frames = limits.max_frames / 2;
  half.max_utterances = std::max<int64_t>(1, std::min(limits.max_utterances, kLoadedAtOnce) / 2);
  return raised_to(half, largest);
}

}  // namespace

Evaluation evaluate_with_retries(MicroBatchLimits& limits, const LargestItem& largest,
                                 const EvaluationAttempts& attempts) {
  for (int64_t retry = 0;; ++retry) {
    Attempt attempt = attempt_evaluation(attempts, limits, retry == kMaxRetries);
    if (attempt.evaluation) return std::move(*attempt.evaluation);
    if (retry > 0) limits = halved(limits, largest);
    attempts.retried(attempt.reason, limits);
  }
}

}  // namespace sotto::train
