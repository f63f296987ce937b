// The configuration of a run: one YAML or JSON file, everything that decides the result and the
// budget that does not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "sotto/core/config/options.h"
#include "sotto/core/limits.h"
#include "sotto/core/units.h"
#include "sotto/data/audio/audio_cache.h"
#include "sotto/data/batch/augmentation.h"
#include "sotto/data/batch/dataset.h"
#include "sotto/data/batch/sampler.h"
#include "sotto/data/text/text_corpus.h"
#include "sotto/models/model_options.h"
#include "sotto/models/reduction.h"
#include "sotto/nn/layer_tiers.h"
#include "sotto/optim/optimizer.h"
#include "sotto/train/step/early_stopping.h"
#include "sotto/train/step/numerics.h"

namespace sotto::train {

inline constexpr std::array kReductions = {Named{"sum", models::Reduction::kSum},
                                           Named{"tokens", models::Reduction::kTokens},
                                           Named{"utterances", models::Reduction::kUtterances},
                                           Named{"ctc_mean", models::Reduction::kCtcMean}};

struct DataOptions {
  // Manifests; texts for a language model.
  std::filesystem::path train;
  std::filesystem::path dev;
  // A vocab.json, or a model of SentencePiece; without one, the characters of the training
  // transcripts.
  std::filesystem::path tokenizer;
  // How transcripts and texts are brought to one form.
  data::TextRules text;
  // Of a language model: tokens of a row, and what is a document of a plain text.
  int64_t row_tokens = 512;
  data::Documents documents = data::Documents::kParagraph;
  // What becomes of utterances that are broken, too long and so on.
  data::DatasetOptions utterances;
  // An utterance that does not fit into the budget alone.
  data::Policy too_large = data::Policy::kError;
  // What is done to the training audio in each epoch.
  data::AugmentationOptions augment;
  // Threads that decode ahead.
  int64_t loader_threads = 1;
  // What audio decoded ahead may take; auto: an eighth of the free RAM, at most 1 GiB.
  MemorySize loader_memory;
  // Whether decoded audio is kept for the next epoch, and how much of it; auto: a quarter of the
  // free RAM, on disk 16 GiB.
  data::CacheKind cache = data::CacheKind::kNone;
  MemorySize cache_size;

  void visit(OptionVisitor& visitor);
  void validate() const;  // throws ConfigError
};

struct RunConfig {
  // The run's folder is runs/NAME; empty: runs/MODEL-N with the next number.
  std::string name;
  models::ModelOptions model;
  // A checkpoint, a run, or a model of Hugging Face (a folder, or an id in its cache) whose weights
  // the run begins with; empty: random ones.
  std::filesystem::path init_from;
  DataOptions data;
  optim::OptimizerOptions optimizer;
  // What the run may take.
  MemorySize memory;
  // Host memory that it may take besides.
  MemorySize host_memory;
  // cpu, cuda or cuda:N.
  std::string device = "cpu";
  // Which arithmetic is used, and what of it is not as its name says.
  Numerics numerics = Numerics::kFp32;
  PrecisionOptions precision;
  // The same bits each time, also on a GPU.
  bool deterministic = false;
  // What is kept for backward, by layer.
  nn::LayerTiers tier = nn::Tier::kNorms;
  // Utterances of one update, or seconds of them; rows of a text.
  data::EffectiveBatch effective_batch;
  // Most utterances of a micro-batch; 0: as memory allows.
  int64_t micro_batch = 0;
  // Most frames of a micro-batch, as the network's encoder counts them; 0: as memory allows.
  int64_t max_frames = 0;
  // Micro-batches are filled by the lengths of their utterances; false: micro_batch in each,
  // whatever their lengths.
  bool adaptive_batching = true;
  // The order of the utterances.
  data::Curriculum curriculum = data::Curriculum::kShuffle;
  // What the loss of a step is.
  models::Reduction reduction = models::Reduction::kCtcMean;
  int64_t epochs = 10;
  // Ends the run earlier; 0: after its epochs.
  int64_t max_steps = 0;
  // Of weights, order and dropout.
  int64_t seed = 1;
  // Steps between evaluations; 0: at the end of each epoch.
  int64_t evaluate_every = 0;
  // Steps between checkpoints; 0: at the end of each epoch.
  int64_t checkpoint_every = 0;
  // Seconds after which a checkpoint is due in any case.
  double checkpoint_seconds = 600.0;
  // Checkpoints that are kept; the best one besides.
  int64_t keep_checkpoints = 2;
  // Ends the run where evaluations get no better.
  EarlyStoppingOptions early_stopping;
  // Steps between givings back of what libraries and the audio cache hold; 0: never.
  int64_t release_caches_every = 0;

  // Throws ConfigError where its parts do not go together.
  Arithmetic arithmetic() const { return arithmetic_of(numerics, precision); }
  // Whether something that the device could hold lies in host memory.
  bool keeps_on_host() const {
    return tier.has(nn::Tier::kHost) || optimizer.state == optim::StatePlace::kHost;
  }

  void visit(OptionVisitor& visitor);
  void validate() const;

 private:
  void check_text() const;
};

// What the configuration itself says of micro-batches.
// Throws ConfigError for a setting that has no effect beside the others: for a run that begins,
// since earlier versions let such runs begin.
void check_effects(const RunConfig& config);

MicroBatchLimits limits_of(const RunConfig& config);

// The settings of a manifest's utterances, with those that follow from the model.
data::DatasetOptions dataset_options(const RunConfig& config, const data::Manifest& manifest);

// The learning rate's schedule and the end of the run need the number of updates.
int64_t total_steps(const RunConfig& config, int64_t steps_per_epoch);

}  // namespace sotto::train
