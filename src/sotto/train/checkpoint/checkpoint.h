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

#include "sotto/core/files/checksum.h"
#include "sotto/core/limits.h"
#include "sotto/data/batch/sampler.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/train/step/early_stopping.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

inline constexpr int64_t kCheckpointFormatVersion = 1;
// In a run's folder: its checkpoints, and beside them the best.
inline constexpr const char* kCheckpointsFolder = "checkpoints";
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
  // Which of those steps did not change all parameters.
  optim::SkippedSteps skipped = {};
  // How evaluations went, for a rate that depends on it, and for an end that does.
  optim::Plateau plateau = {};
  EarlyStopping early_stopping = {};
  // The evaluation that is due after the step has not been made.
  bool owes_evaluation = false;
  // Steps that the schedule of the rate is laid out for; 0 in checkpoints that do not say.
  int64_t schedule_steps = 0;
  // With other training data it would not be the same run. Fingerprints of its lines, of the items
  // that take part in their order, and of the files behind them; 0 or empty in checkpoints of
  // earlier versions.
  uint64_t data_fingerprint = 0;
  uint64_t order_fingerprint = 0;
  std::vector<uint64_t> file_hashes = {};
  // The longest utterance that took part, in seconds, where longer ones did not fit; else 0.
  double longest_fitting_s = 0.0;
  // Fingerprint of the lines that are evaluated on; 0 without evaluation.
  uint64_t dev_fingerprint = 0;
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
// Whether all of it passes.
bool is_whole_checkpoint(const std::filesystem::path& folder);

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

// The checkpoints of a run, the newest last; and those that were set aside.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run_folder);
std::vector<std::filesystem::path> list_set_aside(const std::filesystem::path& run_folder);
std::filesystem::path checkpoint_path(const std::filesystem::path& run_folder, int64_t step);

// The folder itself where it is a checkpoint; of a run's folder the best, else the newest, else the
// newest whole one that was set aside. Nothing where it is neither.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& path);

// Gives a checkpoint another name, with `.aside` behind it, and returns that. `used`: a checkpoint
// that keeps its name, because the run goes on from it. Throws DataError.
std::filesystem::path set_aside(const std::filesystem::path& path,
                                const std::optional<std::filesystem::path>& used = {});
// Gives the checkpoints of a run that lie beyond a step another name, `step-N.aside`, and returns
// those; also one of that very step that is not the one in use. A run that goes on from an older
// one would otherwise be resumed from them, and keep them instead of its own. `used`: the
// checkpoint that the run goes on from.
std::vector<std::filesystem::path> set_aside_beyond(
    const std::filesystem::path& run_folder, int64_t step,
    const std::optional<std::filesystem::path>& used = {});

}  // namespace sotto::train
