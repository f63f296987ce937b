// The proof behind the first promise: one training step of a stack is run dry, on tensors without
// storage, and then for real in an arena that has exactly the bytes the dry run said, and not one
// more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/core/units.h"
#include "sotto/device/arena.h"
#include "sotto/nn/tape.h"
#include "sotto/nn/transformer_block.h"

namespace sotto::nn {

// The settings of `sotto prove memory`.
struct MemoryProofOptions {
  // Stacks to run, each "layers x width x frames".
  std::vector<std::string> stacks = {"2x64x300", "4x128x600", "4x256x1000", "6x384x1500",
                                     "8x512x2000"};
  // Of activations and matrices.
  std::vector<std::string> types = {"fp32", "bf16", "fp16"};
  // What is kept for backward.
  std::vector<std::string> tiers = {"none", "norms", "ffn", "qkv", "block", "host"};
  // Width inside the feed-forward part, over the width of the stack.
  int64_t hidden_factor = 4;
  // Share of values set to zero.
  double dropout = 0.1;
  // Of weights, dropout and the lengths of the utterances.
  int64_t seed = 1;
  // What the largest of them may take.
  MemorySize memory = {};

  void visit(OptionVisitor& visitor);
  void validate() const;
};

// One step to prove: a stack of blocks and the utterances of its packed batch.
struct MemoryProofCase {
  TransformerBlockOptions blocks;
  at::ScalarType type = at::kFloat;
  Tier tier = Tier::kNone;
  uint64_t seed = 1;
  std::vector<int64_t> lengths;  // frames of each utterance

  // "4x256x1000", "bf16", "norms", and all of it: "4x256x1000 bf16 tier norms".
  std::string stack_name() const;
  std::string type_name() const;
  std::string tier_name() const;
  std::string name() const;
};

// Every stack in every type at every tier.
std::vector<MemoryProofCase> cases_of(const MemoryProofOptions& options);

struct MemoryProof {
  device::MemoryReport predicted;
  device::MemoryReport measured;
  double dry_seconds = 0.0;
  double real_seconds = 0.0;

  // Peak, by category, its moment and the placement: all equal to the byte, and no library call
  // beyond its bound.
  bool holds() const;
};

// What the step needs, without taking any of it.
device::MemoryReport predict_memory(const MemoryProofCase& step);

// Runs the step dry and for real. Throws OutOfMemory, before anything is taken, where it does not
// fit into `budget_bytes`; the message names the budget that would do.
MemoryProof prove_memory(const MemoryProofCase& step, int64_t budget_bytes);

}  // namespace sotto::nn
