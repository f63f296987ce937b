// A checkpoint: a folder with everything needed to resume a run bit-exactly, or to recognise
// speech. It is written atomically.
//
//   model.safetensors       weights by name; in Hugging Face's names where it has the network, with
//                           the config.json and preprocessor_config.json that transformers reads
//   optimizer.safetensors   NAME.first_moment, NAME.second_moment; NAME.remainder of bf16 weights;
//                           NAME.first_scales, NAME.second_scales of 8-bit moments
//   config.yaml             the run's configuration
//   vocab.json              the tokenizer, or tokenizer.model; with tokenizer_config.json where it
//                           came with one
//   state.json              the progress of the run
//   files.json              size and checksum of each file
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/files/checksum.h"
#include "sotto/core/limits.h"
#include "sotto/data/batch/sampler.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/train/step/early_stopping.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

inline constexpr int64_t kCheckpointFormatVersion = 1;
// Subfolders of a run's folder: its checkpoints, and the best one.
inline constexpr const char* kCheckpointsFolder = "checkpoints";
inline constexpr const char* kBestFolder = "best";

// Progress of a run between two steps.
struct RunState {
  // Number of completed updates, and the position of the next step.
  int64_t step = 0;
  data::StepPosition next;
  // Index of the stage, and the number of updates before it; 0 in runs without stages.
  int64_t stage = 0;
  int64_t stage_begin = 0;
  MicroBatchLimits limits;
  // Name of the device for which the limits were found; empty in checkpoints of earlier versions.
  std::string device_name = {};
  // Metric of the evaluation after the step; none where there was none, or where it is not finite.
  std::optional<double> metric = {};
  // Metric of the best evaluation so far, and its step.
  double best_metric = std::numeric_limits<double>::infinity();
  int64_t best_step = 0;
  // Scale of the loss (fp16), and the number of steps since it changed.
  double loss_scale = 1.0;
  int64_t steps_since_scale_change = 0;
  // Number of steps that did not update all parameters.
  optim::SkippedSteps skipped = {};
  // Evaluation history for learning rate reduction on a plateau and for early stopping.
  optim::Plateau plateau = {};
  EarlyStopping early_stopping = {};
  // The evaluation due after the step has not run yet.
  bool owes_evaluation = false;
  // Number of steps that the learning rate schedule covers; 0 in checkpoints that do not store it.
  int64_t schedule_steps = 0;
  // Fingerprints of the training data, which must not change within a run: of its lines, of the
  // selected items in order, and of the files they refer to; 0 or empty in checkpoints of earlier
  // versions.
  uint64_t data_fingerprint = 0;
  uint64_t order_fingerprint = 0;
  std::vector<uint64_t> file_hashes = {};
  // Duration of the longest utterance used, in seconds, where longer ones did not fit; else 0.
  double longest_fitting_s = 0.0;
  // Fingerprint of the lines of the evaluation data; 0 without evaluation.
  uint64_t dev_fingerprint = 0;
  models::DataShape shape;
};

struct Checkpoint {
  RunState state;
  RunConfig config;
  data::Tokenizer tokenizer;
  // The config.json of the Hugging Face model that the run started from; its additional keys are
  // kept in the checkpoint's own. Empty where there is none.
  std::string model_config = {};
};

// Writes the folder. On file systems without atomic rename the new folder is verified before the
// one that it replaces is removed. Throws DataError on failure; the previous folder is then intact.
void write_checkpoint(const std::filesystem::path& folder, const Learner& learner,
                      const Checkpoint& checkpoint);

// Writes a checkpoint with tensors from another source: each function writes one file and returns
// its size and checksum.
struct TensorWriters {
  std::function<FileSum(const std::filesystem::path&)> weights;
  std::function<FileSum(const std::filesystem::path&)> optimizer;
};
void write_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                      const TensorWriters& write);

// Writes the configuration files that transformers reads, where it supports the network.
void write_model_config(const std::filesystem::path& folder, const Checkpoint& checkpoint);

// Reads everything except the tensors. Throws DataError where a file is missing, invalid, truncated
// or of a newer format.
Checkpoint read_checkpoint(const std::filesystem::path& folder);

// Reads only the progress of the run. Throws DataError as read_checkpoint() does.
RunState read_state(const std::filesystem::path& folder);

// Whether a folder is a checkpoint, intact or not.
bool is_checkpoint(const std::filesystem::path& folder);

enum class CheckpointPart {
  kAll,
  // Everything except the optimizer's state: enough for recognition.
  kNetwork
};

// Verifies the size and checksum of every file. Throws DataError, which names folder and file,
// where one is missing, truncated or damaged.
void check_checkpoint(const std::filesystem::path& folder, CheckpointPart part);
// Whether check_checkpoint() succeeds for all files.
bool is_whole_checkpoint(const std::filesystem::path& folder);

// Loads the weights of a checkpoint into a network with the same numerics (load_learner()
// converts). Throws DataError with the differences where names, shapes or types differ; the network
// is then unchanged.
void load_weights(const std::filesystem::path& folder, models::Model& model);

// Paths of the tensor files of a checkpoint.
std::filesystem::path weights_path(const std::filesystem::path& folder);
std::filesystem::path optimizer_path(const std::filesystem::path& folder);
// Optimizer state under its names in the checkpoint, and the name of a parameter's remainder.
std::vector<models::NamedTensor> tensors_of(const optim::Optimizer& optimizer);
std::string remainder_name(const std::string& parameter);

// Lists the checkpoints of a run, and those that were set aside, oldest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run_folder);
std::vector<std::filesystem::path> list_set_aside(const std::filesystem::path& run_folder);
std::filesystem::path checkpoint_path(const std::filesystem::path& run_folder, int64_t step);

// Returns the folder itself where it is a checkpoint; for a run's folder the best checkpoint, else
// the latest, else the latest intact one that was set aside. None where the folder is neither.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& path);

// Renames a checkpoint by appending `.aside`, and returns the new path. `used`: a checkpoint that
// keeps its name, because the run resumes from it. Throws DataError.
std::filesystem::path set_aside(const std::filesystem::path& path,
                                const std::optional<std::filesystem::path>& used = {});
// Renames the checkpoints of a run after a step to `step-N.aside`, and returns the new paths;
// includes a checkpoint of that same step unless it is `used`. Otherwise a run resumed from an
// older checkpoint would later resume from the newer ones, and keep them instead of its own.
// `used`: the checkpoint that the run resumes from.
std::vector<std::filesystem::path> set_aside_beyond(
    const std::filesystem::path& run_folder, int64_t step,
    const std::optional<std::filesystem::path>& used = {});

}  // namespace sotto::train
