// Translates configuration keys of other tools into ours before a configuration is read.
// Configurations are written back with our keys only.
//
//   per_device_train_batch_size: 4      micro_batch: 4
//   gradient_accumulation_steps: 8      effective_batch: 32
//   num_train_epochs: 3                 epochs: 3
//   learning_rate: 1e-4                 optimizer: {schedule: {rate: 1e-4}}
//   warmup_steps, warmup_ratio          optimizer: {schedule: {warmup_steps, warmup_share}}
//   weight_decay, max_grad_norm         optimizer: {weight_decay, clip_norm}
//   eval_steps, save_steps              evaluate_every, checkpoint_every
//   save_total_limit: 3                 keep_checkpoints: 3
//   gradient_checkpointing: true        tier: block (false: none)
//   bf16: true, mixed_precision: bf16   numerics: bf16-exact
//   fp16: true, mixed_precision: fp16   numerics: fp16
//   optimizer: adamw_8bit               precision: {moments: 8bit}
//   max_samples: 100                    data: {max_samples: 100}
//   dataloader_num_workers: 4           data: {loader_threads: 4}
//   max_memory_gb: 12                   memory: 12GB
//   safety_margin: 0.85                 memory: 85%
//   max_steps: -1                       max_steps: 0
//   resume_from_checkpoint: true, PATH  --resume
#pragma once

#include <filesystem>
#include <optional>

#include "sotto/core/config/config_tree.h"

namespace sotto::train {

// Requests made by such keys that are not settings of a run.
struct AliasedRequest {
  // Resume from the latest checkpoint in the run's folder.
  bool resumes = false;
  std::optional<std::filesystem::path> resume_from;
};

// Throws ConfigError, with the location, for a value that the key does not accept in its original
// tool, and where our own key is also present.
AliasedRequest resolve_aliases(ConfigNode& root);

}  // namespace sotto::train
