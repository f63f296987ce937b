// What the same training would take with Hugging Face's Trainer: padded batches, autocast, its
// optimizer. An estimate by counting what PyTorch keeps, held against measured rows
// (bench/hf_memory.py); nothing of ours is decided by it.
#pragma once

#include <cstdint>
#include <optional>

#include "sotto/models/model_options.h"

namespace sotto::plan {

// One way to train there.
struct PaddedTraining {
  // Utterances of a micro-batch, all padded to the same length.
  int64_t utterances = 8;
  double seconds = 0.0;
  int64_t accumulation = 1;
  // bf16 or fp16 by autocast; else fp32, or tf32, which takes as much.
  bool is_half = true;
  bool checkpoints = false;
  // adamw_bnb_8bit, or adamw_torch_fused.
  bool has_8bit_moments = false;
  // attn_implementation "eager", or "sdpa".
  bool is_eager = false;
};

struct TransformersMemory {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t moments = 0;
  // Of a micro-batch, at its worst moment: activations for backward and 16-bit copies of weights,
  // or what the feature encoder takes in passing.
  int64_t micro_batch = 0;
  // Most at any moment, as torch.cuda.max_memory_allocated() has it.
  int64_t peak = 0;
};

// Throws ConfigError for a network that transformers does not have.
TransformersMemory estimate_transformers(const models::ModelOptions& model,
                                         const PaddedTraining& training);

// What the caching allocator reserves besides, and the driver: measured rows had 1.01 to 1.44 times
// what was allocated, few of them above 1.25.
int64_t with_reserve(int64_t peak_bytes);

// The fastest way in a budget, by what is known of such training: without checkpointing where the
// micro-batch stays large enough. Nothing where none fits.
struct TransformersChoice {
  PaddedTraining training;
  TransformersMemory memory;
};
struct TransformersRequest {
  int64_t budget_bytes = 0;
  int64_t effective_batch = 32;
  double longest_s = 0.0;
  bool is_half = true;
};
std::optional<TransformersChoice> choose_transformers(const models::ModelOptions& model,
                                                      const TransformersRequest& request);

}  // namespace sotto::plan
