// Proves that memory predictions are exact: one training step of a stack is dry-run on tensors
// without storage, and then run in an arena that has exactly the predicted bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/core/units.h"
#include "sotto/device/arena.h"
#include "sotto/nn/blocks/transformer_block.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

// The settings of `sotto prove memory`.
struct MemoryProofOptions {
  // Stacks to run, each "layers x width x frames".
  std::vector<std::string> stacks = {"2x64x300", "4x128x600", "4x256x1000", "6x384x1500",
                                     "8x512x2000"};
  // Types of activations and matrices.
  std::vector<std::string> types = {"fp32", "bf16", "fp16"};
  // Tiers: what is kept for backward.
  std::vector<std::string> tiers = {"none", "norms", "ffn", "qkv", "block", "host"};
  // Width inside the feed-forward part, relative to the width of the stack.
  int64_t hidden_factor = 4;
  // Probability of dropout.
  double dropout = 0.1;
  // Seed of weights, dropout and utterance lengths.
  int64_t seed = 1;
  // Memory limit of the largest step.
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

  // Such as "4x256x1000", "bf16", "norms", and combined: "4x256x1000 bf16 tier norms".
  std::string stack_name() const;
  std::string type_name() const;
  std::string tier_name() const;
  std::string name() const;
};

// Returns all combinations of stacks, types and tiers.
std::vector<MemoryProofCase> cases_of(const MemoryProofOptions& options);

struct MemoryProof {
  device::MemoryReport predicted;
  device::MemoryReport measured;
  double dry_seconds = 0.0;
  double real_seconds = 0.0;

  // Whether the peak, its bytes by category, its moment and the placement are equal to the byte,
  // and no library call exceeded its bound.
  bool holds() const;
};

// Predicts the memory of the step without allocating any.
device::MemoryReport predict_memory(const MemoryProofCase& step);

// Runs the step dry and for real. Throws OutOfMemory, before anything is allocated, where it does
// not fit into `budget_bytes`; the message names the sufficient budget.
MemoryProof prove_memory(const MemoryProofCase& step, int64_t budget_bytes);

}  // namespace sotto::nn
