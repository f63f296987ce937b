// Memory of the same training with Hugging Face's Trainer: padded batches, autocast, its optimizer.
// An estimate that counts what PyTorch keeps, validated against measurements (bench/hf_memory.py);
// no decision of ours depends on it.
#pragma once

#include <cstdint>
#include <optional>

#include "sotto/models/model_options.h"

namespace sotto::plan {

// One configuration of the Trainer.
struct PaddedTraining {
  // Utterances per micro-batch, all padded to the same length.
  int64_t utterances = 8;
  double seconds = 0.0;
  int64_t accumulation = 1;
  // bf16 or fp16 by autocast; else fp32 or tf32, which take the same memory.
  bool is_half = true;
  bool checkpoints = false;
  // True: adamw_bnb_8bit; false: adamw_torch_fused.
  bool has_8bit_moments = false;
  // True: attn_implementation "eager"; false: "sdpa".
  bool is_eager = false;
};

struct TransformersMemory {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t moments = 0;
  // Maximum of one micro-batch: activations for backward and 16-bit copies of weights, or
  // temporaries of the feature encoder.
  int64_t micro_batch = 0;
  // Peak as reported by torch.cuda.max_memory_allocated().
  int64_t peak = 0;
};

// Throws ConfigError for a network that transformers does not support.
TransformersMemory estimate_transformers(const models::ModelOptions& model,
                                         const PaddedTraining& training);

// Adds what the caching allocator and the driver reserve: measurements were 1.01 to 1.44 times the
// allocated bytes, few of them above 1.25.
int64_t with_reserve(int64_t peak_bytes);

// The fastest configuration within a budget, by a rule of thumb for such training: without
// checkpointing where the micro-batch stays large enough. None where nothing fits.
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
