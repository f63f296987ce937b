// Which utterances of a step go through the model together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/core/limits.h"

namespace sotto::data {

// The size of an item as limits of micro-batches count it.
struct ItemSize {
  int64_t frames = 0;
  int64_t labels = 0;
};

struct StepPacking {
  // Places in the step. The micro-batch with the longest utterance comes first, so that a shortage
  // of memory shows at once; inside a micro-batch the order is the step's.
  std::vector<std::vector<int64_t>> micro_batches;
  // Places of utterances that exceed a limit by themselves, in order. They are in no micro-batch:
  // the caller's policy decides what becomes of them.
  std::vector<int64_t> too_large;
};

// The fewest micro-batches under the limits that can be found quickly, about equally long: for each
// number of them from the fewest conceivable on, every utterance, the longest first, goes into the
// micro-batch with the fewest frames that has room for it. The number at which first fit succeeds
// (at most 11/9 of the fewest possible for one limit) ends the search. The same sizes and limits
// always give the same result.
StepPacking pack_step(std::span<const ItemSize> sizes, const MicroBatchLimits& limits);

}  // namespace sotto::data
