// The configuration of a run: one YAML or JSON file with everything that determines the result, and
// the budget, which does not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/core/limits.h"
#include "sotto/core/units.h"
#include "sotto/data/audio/audio_cache.h"
#include "sotto/data/batch/augmentation.h"
#include "sotto/data/batch/dataset.h"
#include "sotto/data/batch/sampler.h"
#include "sotto/data/batch/text_rows.h"
#include "sotto/data/text/text_corpus.h"
#include "sotto/decode/decode_options.h"
#include "sotto/models/model_options.h"
#include "sotto/models/reduction.h"
#include "sotto/nn/layer_tiers.h"
#include "sotto/optim/optimizer.h"
#include "sotto/train/step/early_stopping.h"
#include "sotto/train/step/numerics.h"
#include "sotto/train/step/stage_options.h"

namespace sotto::train {

inline constexpr std::array kReductions = {Named{"sum", models::Reduction::kSum},
                                           Named{"tokens", models::Reduction::kTokens},
                                           Named{"utterances", models::Reduction::kUtterances},
                                           Named{"ctc_mean", models::Reduction::kCtcMean}};

struct DataOptions {
  // Manifests, or texts for a language model.
  std::filesystem::path train;
  std::filesystem::path dev;
  // A vocab.json or a SentencePiece model; without one, the characters of the training transcripts.
  std::filesystem::path tokenizer;
  // Normalisation of transcripts and texts.
  data::TextRules text;
  // For a network with prompts: the language of all utterances (empty: `lang` of each in the
  // manifest), and what it is to do.
  std::string language;
  data::WhisperTask task = data::WhisperTask::kTranscribe;
  // For a language model: tokens per row, and what separates documents in plain text.
  int64_t row_tokens = 512;
  data::Documents documents = data::Documents::kParagraph;
  // Attention and targets do not cross the ends of documents; false: a row is one sequence.
  bool separate_documents = true;
  // Treatment of utterances that are broken, too long and so on.
  data::DatasetOptions utterances;
  // Treatment of an utterance that alone does not fit into the budget.
  data::Policy too_large = data::Policy::kError;
  // Augmentation of the training audio in each epoch.
  data::AugmentationOptions augment;
  // Number of threads that decode ahead.
  int64_t loader_threads = 1;
  // Memory for audio decoded ahead; auto: an eighth of the free RAM, at most 1 GiB.
  MemorySize loader_memory;
  // Where decoded audio is kept for the next epoch, and how much; auto: a quarter of the free RAM,
  // on disk 16 GiB.
  data::CacheKind cache = data::CacheKind::kNone;
  MemorySize cache_size;

  data::TextRows::Options rows() const {
    return {.length = row_tokens, .separates_documents = separate_documents};
  }

  void visit(OptionVisitor& visitor);
  void validate() const;  // throws ConfigError
};

struct RunConfig {
  // The run's folder is runs/NAME; empty: runs/MODEL-N with the next number.
  std::string name;
  models::ModelOptions model;
  // A checkpoint, a run, or a Hugging Face model (a folder, or an id in its cache) whose weights
  // initialise the run; empty: random weights.
  std::filesystem::path init_from;
  DataOptions data;
  optim::OptimizerOptions optimizer;
  // Memory budget of the run.
  MemorySize memory;
  // Host memory that the run may use in addition.
  MemorySize host_memory;
  // cpu, cuda or cuda:N.
  std::string device = "cpu";
  // Arithmetic of the run, and parts that override it.
  Numerics numerics = Numerics::kFp32;
  PrecisionOptions precision;
  // Bit-identical results in repeated runs, including on a GPU.
  bool deterministic = false;
  // What is kept for backward, per layer.
  nn::LayerTiers tier = nn::Tier::kNorms;
  // Utterances per update, or seconds of them; rows for text.
  data::EffectiveBatch effective_batch;
  // Maximum utterances per micro-batch; 0: as memory allows.
  int64_t micro_batch = 0;
  // Maximum frames per micro-batch, as counted by the network's encoder; 0: as memory allows.
  int64_t max_frames = 0;
  // Maximum utterances per micro-batch of an evaluation; 0: as memory allows.
  int64_t evaluation_micro_batch = 0;
  // Micro-batches are filled by utterance length; false: a fixed number of micro_batch utterances,
  // regardless of length.
  bool adaptive_batching = true;
  // Order of the utterances.
  data::Curriculum curriculum = data::Curriculum::kShuffle;
  // Reduction of the loss of a step.
  models::Reduction reduction = models::Reduction::kCtcMean;
  int64_t epochs = 10;
  // Maximum number of steps; 0: all epochs.
  int64_t max_steps = 0;
  // Progressive training: the parts of the run, each on more of the data; they replace epochs and
  // max_steps. Empty: one stage with all data.
  std::vector<StageOptions> stages;
  // Seed of weights, order and dropout.
  int64_t seed = 1;
  // The search for transcripts in evaluations.
  decode::DecodeOptions decode;
  // Steps between evaluations; 0: at the end of each epoch.
  int64_t evaluate_every = 0;
  // Steps between checkpoints; 0: at the end of each epoch.
  int64_t checkpoint_every = 0;
  // Seconds after which a checkpoint is written in any case.
  double checkpoint_seconds = 600.0;
  // Number of latest checkpoints to keep, in addition to the best ones.
  int64_t keep_checkpoints = 2;
  // Number of checkpoints with the best evaluations to keep; 1: only the copy in best/.
  int64_t keep_best = 1;
  // Ends the run when evaluations stop improving.
  EarlyStoppingOptions early_stopping;
  // Steps between releases of memory held by libraries and the audio cache; 0: never.
  int64_t release_caches_every = 0;

  // Throws ConfigError where its parts are incompatible.
  Arithmetic arithmetic() const { return arithmetic_of(numerics, precision); }
  // Whether data that the device could hold is stored in host memory.
  bool keeps_on_host() const {
    return tier.has(nn::Tier::kHost) || optimizer.state == optim::StateLocation::kHost;
  }
  // Whether no item is read a second time.
  bool is_single_pass() const;

  void visit(OptionVisitor& visitor);
  void validate() const;

 private:
  void check_text() const;
};

// Throws ConfigError for a setting that has no effect in combination with the others. Only for new
// runs, since earlier versions allowed such runs to start.
void check_effects(const RunConfig& config);

// Throws ConfigError for a setting of prompts where the network has none.
void check_prompt_effects(const RunConfig& config);

// Throws ConfigError for a setting that has no effect because the run has stages.
void check_stage_effects(const RunConfig& config);

// Returns the limits of micro-batches that the configuration itself sets.
MicroBatchLimits limits_of(const RunConfig& config);

// Returns the options for a manifest's utterances, including those that follow from the model.
data::DatasetOptions dataset_options(const RunConfig& config, const data::Manifest& manifest);

// Returns the number of updates of a run without stages, which determines the learning rate
// schedule and the end of the run.
int64_t total_steps(const RunConfig& config, int64_t steps_per_epoch);

}  // namespace sotto::train
