// A checkpoint: a folder with all that a run needs to go on to the bit, or a program to recognise
// speech. It is there whole or not at all.
//
//   model.safetensors       weights by name; in Hugging Face's names where it has the network, with
//   the
//                           config.json and preprocessor_config.json that transformers reads
//   optimizer.safetensors   NAME.first_moment, NAME.second_moment; NAME.remainder of bf16 weights;
//                           NAME.first_scales, NAME.second_scales of 8-bit moments
//   config.yaml             the run's configuration
//   vocab.json              the tokenizer, or tokenizer.model
//   state.json              where the run stands
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "sotto/core/limits.h"
#include "sotto/data/sampler.h"
#include "sotto/data/tokenizer.h"
#include "sotto/train/step.h"

namespace sotto::train {

inline constexpr int64_t kCheckpointFormatVersion = 1;

// Where a run stands between two steps.
struct RunState {
  // Updates done, and the next to do.
  int64_t step = 0;
  data::StepPosition next;
  MicroBatchLimits limits;
  // Of the best evaluation so far, of what they are compared by.
  double best_metric = std::numeric_limits<double>::infinity();
  int64_t best_step = 0;
  // What losses of fp16 were multiplied by, and for how many steps.
  double loss_scale = 1.0;
  int64_t steps_since_scale_change = 0;
  // How evaluations went, for a rate that depends on it.
  optim::Plateau plateau = {};
  // Of the training data: another one would not be the same run.
  uint64_t data_fingerprint = 0;
  models::DataShape shape;
};

struct Checkpoint {
  RunState state;
  RunConfig config;
  data::Tokenizer tokenizer;
};

// Writes the folder. Throws DataError where it cannot; what was there before is then there still.
void write_checkpoint(const std::filesystem::path& folder, const Learner& learner,
                      const Checkpoint& checkpoint);

// All but the tensors. Throws DataError where a file is missing, broken, cut short or of a newer
// format.
Checkpoint read_checkpoint(const std::filesystem::path& folder);

// Reads all of a checkpoint but the values of its tensors. Throws DataError where something is
// wrong.
void check_checkpoint(const std::filesystem::path& folder);

// The tensors of a checkpoint into a network, and into an optimizer. Throws DataError with the
// differences where names, shapes or types are others; nothing is then changed.
void load_weights(const std::filesystem::path& folder, models::Model& model);
void load_optimizer(const std::filesystem::path& folder, optim::Optimizer& optimizer);

// The checkpoints of a run, the newest last.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run_folder);
std::filesystem::path checkpoint_path(const std::filesystem::path& run_folder, int64_t step);

}  // namespace sotto::train
