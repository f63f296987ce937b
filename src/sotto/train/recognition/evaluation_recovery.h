// Recovery from an evaluation that runs out of memory: it is run again, first unchanged, then with
// halved limits. An evaluation changes nothing that a run needs, so that training goes on.
#pragma once

#include <functional>
#include <string>

#include "sotto/core/limits.h"
#include "sotto/train/recognition/evaluation.h"

namespace sotto::train {

struct EvaluationAttempts {
  // Evaluates under the limits.
  std::function<Evaluation(const MicroBatchLimits&)> run;
  // Called before it runs again, with the reason and the limits of the new attempt; frees caches.
  std::function<void(const std::string& reason, const MicroBatchLimits&)> retried;
};

// `limits`: changed to those that sufficed. `largest`: of all items, the least that a micro-batch
// must hold. Throws the last error after kMaxRetries.
Evaluation evaluate_with_retries(MicroBatchLimits& limits, const LargestItem& largest,
                                 const EvaluationAttempts& attempts);

}  // namespace sotto::train
