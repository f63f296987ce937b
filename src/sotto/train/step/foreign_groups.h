// Brings the groups of other tools' configurations into our order, before config_aliases.h
// translates their keys:
//
//   training: {learning_rate: 1e-4}     learning_rate: 1e-4
//   model: {name: nvidia/parakeet-...}  --model
//   model: {gradient_checkpointing: b}  gradient_checkpointing: b
//   data: {train_manifest: a.jsonl}     data: {train: a.jsonl}
//   data: {max_duration: 20}            data: {max_seconds: 20}
//   max_samples: -1                     all of them
//   num_gpus: 1                         device: cuda
//   output_dir: runs/x                  --out
#pragma once

#include <string>

#include "sotto/core/config/config_tree.h"

namespace sotto::train {

// What the groups ask for that is not a setting of a run.
struct GroupedRequest {
  // The network, as --model takes it; empty: none.
  std::string model = {};
  // The run's folder; empty: none.
  std::string folder = {};
};

// Throws ConfigError, with the location, where a key is there twice, where its value cannot take
// effect (num_gpus: 2), and for networks with two heads (hybrids), which are not supported.
GroupedRequest open_groups(ConfigNode& root);

}  // namespace sotto::train
