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
//   optimizer, optim: adamw_8bit        precision: {moments: 8bit}
//   lr_scheduler_type: cosine           optimizer: {schedule: {kind: cosine}}
//   adam_beta1, adam_beta2              optimizer: {beta1, beta2}
//   adam_epsilon: 1e-8                  optimizer: {epsilon: 1e-8}
//   per_device_eval_batch_size: 8       evaluation_micro_batch: 8
//   eval_strategy, save_strategy: epoch evaluate_every: 0, checkpoint_every: 0
//   max_samples: 100                    data: {max_samples: 100}
//   dataloader_num_workers: 4           data: {loader_threads: 4}
//   max_memory_gb: 12                   memory: 12GB
//   safety_margin: 0.85                 memory: 85%
//   max_steps: -1                       max_steps: 0
//   groups of other tools               foreign_groups.h
//   resume_from_checkpoint: true, PATH  --resume
//
// Those of a run's length and schedule are also known in a stage: learning_rate, max_steps and so
// on.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sotto/core/config/config_tree.h"

namespace sotto::train {

// Requests made by such keys that are not settings of a run.
struct AliasedRequest {
  // Resume from the latest checkpoint in the run's folder.
  bool resumes = false;
  std::optional<std::filesystem::path> resume_from;
  // The network, as --model takes it, and the run's folder; empty: not named.
  std::string model = {};
  std::filesystem::path folder = {};
};

// Throws ConfigError, with the location, for a value that the key does not accept in its original
// tool, and where our own key is also present.
AliasedRequest resolve_aliases(ConfigNode& root);

}  // namespace sotto::train
