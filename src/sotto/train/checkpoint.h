// A checkpoint: a folder with all that a run needs to go on to the bit, or a program to recognise
// speech. It is there whole or not at all.
//
//   model.safetensors       weights by name; in Hugging Face's names where it has the network, with
//                           the config.json and preprocessor_config.json that transformers reads
//   optimizer.safetensors   NAME.first_moment, NAME.second_moment; NAME.remainder of bf16 weights;
//                           NAME.first_scales, NAME.second_scales of 8-bit moments
//   config.yaml             the run's configuration
//   vocab.json              the tokenizer, or tokenizer.model; with tokenizer_config.json where it
//                           came with one
//   state.json              where the run stands
//   files.json              size and checksum of each of them
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/checksum.h"
#include "sotto/core/limits.h"
#include "sotto/data/sampler.h"
#include "sotto/data/tokenizer.h"
#include "sotto/train/early_stopping.h"
#include "sotto/train/step.h"

namespace sotto::train {

// The file that makes a folder a checkpoint: counters, limits, position in the data.
inline constexpr const char* kStateFile = "state.json";

inline constexpr int64_t kCheckpointFormatVersion = 1;
// Of a run, beside its checkpoints.
inline constexpr const char* kBestFolder = "best";

// Where a run stands between two steps.
struct RunState {
  // Updates done, and the next to do.
  int64_t step = 0;
  data::StepPosition next;
  MicroBatchLimits limits;
  // The device that they were found for; empty in checkpoints of earlier versions.
  std::string device_name = {};
  // Of the best evaluation so far, of what they are compared by.
  double best_metric = std::numeric_limits<double>::infinity();
  int64_t best_step = 0;
  // What losses of fp16 were multiplied by, and for how many steps.
  double loss_scale = 1.0;
  int64_t steps_since_scale_change = 0;
  // Of those steps, what did not change parameters.
  optim::SkippedSteps skipped = {};
  // How evaluations went, for a rate that depends on it, and for an end that does.
  optim::Plateau plateau = {};
  EarlyStopping early_stopping = {};
  // Of the training data: another one would not be the same run.
  uint64_t data_fingerprint = 0;
  models::DataShape shape;
};

struct Checkpoint {
  RunState state;
  RunConfig config;
  data::Tokenizer tokenizer;
  // The config.json of the Hugging Face model that the run began with, whose other keys that of the
  // checkpoint keeps; empty: none.
  std::string model_config = {};
};

// Writes the folder; where the disk does not rename at once it is read back before one that it
// replaces is removed. Throws DataError where it cannot; what was there before is then there still.
void write_checkpoint(const std::filesystem::path& folder, const Learner& learner,
                      const Checkpoint& checkpoint);

// The same with tensors from elsewhere: each writes a file and says what it wrote.
struct TensorWriters {
  std::function<FileSum(const std::filesystem::path&)> weights;
  std::function<FileSum(const std::filesystem::path&)> optimizer;
};
void write_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                      const TensorWriters& write);

// The files of the network for transformers, where it has that network.
void write_model_config(const std::filesystem::path& folder, const Checkpoint& checkpoint);

// All but the tensors. Throws DataError where a file is missing, broken, cut short or of a newer
// format.
Checkpoint read_checkpoint(const std::filesystem::path& folder);

// Whether a folder is a checkpoint, good or not.
bool is_checkpoint(const std::filesystem::path& folder);

enum class CheckpointPart {
  kAll,
  // All but the optimizer's state: what recognises.
  kNetwork
};

// Reads every file and compares it with what was written. Throws DataError, which names folder and
// file, where one is missing, cut short or damaged.
void check_checkpoint(const std::filesystem::path& folder, CheckpointPart part);

// Throws DataError where something is not as it was that decides which steps come: the training
// data, seed, effective batch, order, the rules of texts.
void check_resumable(const Checkpoint& checkpoint, const RunConfig& config,
                     uint64_t data_fingerprint);

// The weights of a checkpoint into a network of the same arithmetic (load_learner() converts).
// Throws DataError with the differences where names, shapes or types are others; nothing is then
// changed.
void load_weights(const std::filesystem::path& folder, models::Model& model);

// Where the tensors of a checkpoint lie.
std::filesystem::path weights_path(const std::filesystem::path& folder);
std::filesystem::path optimizer_path(const std::filesystem::path& folder);
// The state of an optimizer under the names that it has there, and that of a parameter's remainder.
std::vector<models::NamedTensor> tensors_of(const optim::Optimizer& optimizer);
std::string remainder_name(const std::string& parameter);

// The checkpoints of a run, the newest last.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run_folder);
std::filesystem::path checkpoint_path(const std::filesystem::path& run_folder, int64_t step);

// The folder itself where it is a checkpoint; of a run's folder the best, else the newest. Nothing
// where it is neither.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& path);

// Gives the checkpoints of a run that lie beyond a step another name, `step-N.aside`, and returns
// those. A run that goes on from an older one would else be taken up from them, and keep them
// instead of its own.
std::vector<std::filesystem::path> set_aside_beyond(const std::filesystem::path& run_folder,
                                                    int64_t step);

}  // namespace sotto::train
