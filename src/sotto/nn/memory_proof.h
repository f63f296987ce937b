// The proof behind the first promise: one training step of a stack is run dry, on tensors without
// storage, and then for real in an arena that has exactly the bytes the dry run said, and not one
// more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/device/arena.h"
#include "sotto/nn/feed_forward_stack.h"

namespace sotto::nn {

struct MemoryProof {
  FeedForwardOptions stack;
  std::vector<int64_t> lengths;  // frames of each utterance

  device::MemoryReport predicted;
  device::MemoryReport measured;
  double dry_seconds = 0.0;
  double real_seconds = 0.0;

  // Peak, by category, its moment and the placement: all equal to the byte, and no library call
  // beyond its bound.
  bool holds() const;
};

// What one step needs, without taking any of it.
device::MemoryReport predict_memory(const FeedForwardOptions& stack,
                                    const std::vector<int64_t>& lengths);

// Runs the step dry and for real. Throws OutOfMemory, before anything is taken, where it does not
// fit into `budget_bytes`; the message names the budget that would do.
MemoryProof prove_memory(const FeedForwardOptions& stack, const std::vector<int64_t>& lengths,
                         int64_t budget_bytes);

}  // namespace sotto::nn
