// Splits the utterances of a step into micro-batches.
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
  // Nodes of its lattice, for a transducer: frames x (labels + 1).
  int64_t nodes = 0;
};

struct StepPacking {
  // Indices in the step. The micro-batch with the longest utterance comes first, so that a shortage
  // of memory shows immediately; inside a micro-batch the order is the step's.
  std::vector<std::vector<int64_t>> micro_batches;
  // Indices of utterances that exceed a limit by themselves, in order. They are in no micro-batch:
  // the caller's policy decides about them.
  std::vector<int64_t> too_large;
};

// Returns a small number of micro-batches under the limits, about equally long: for increasing
// numbers, starting at a lower bound, every utterance, the longest first, is put into the
// micro-batch with the fewest frames that has room for it. The search ends at the number at which
// first fit succeeds (at most 11/9 of the minimum for one limit). The result is deterministic.
StepPacking pack_step(std::span<const ItemSize> sizes, const MicroBatchLimits& limits);

}  // namespace sotto::data
