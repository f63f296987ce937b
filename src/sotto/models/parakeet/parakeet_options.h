// The settings of FastConformers (Rekesh et al. 2023, arXiv:2305.05084) as NeMo and transformers
// name them Parakeet. The names are ours; parakeet_hugging_face.h reads them from a config.json.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/kernels/features/log_mel.h"
#include "sotto/kernels/loss/transducer.h"
#include "sotto/nn/fronts/spec_augment.h"
#include "sotto/nn/layers/inner_norm.h"

namespace sotto::models {

// The head that is trained: CTC, or a transducer without or with durations.
enum class ParakeetObjective { kCtc, kRnnt, kTdt };

inline constexpr std::array kParakeetObjectives = {Named{"ctc", ParakeetObjective::kCtc},
                                                   Named{"rnnt", ParakeetObjective::kRnnt},
                                                   Named{"tdt", ParakeetObjective::kTdt}};

// The prediction network and the joint network of a transducer.
struct TransducerOptions {
  // LSTM layers of the prediction network, and their width.
  int64_t layers = 2;
  int64_t width = 640;
  int64_t joint_width = 640;
  // Dropout after each LSTM layer, and after the joint network's ReLU.
  double dropout = 0.2;
  double joint_dropout = 0.2;
  // Whether the blank's row of the embedding, which starts a sequence, is trained.
  bool train_start = true;
  // For TDT: frames by which an emission may advance; what is subtracted from the log-probabilities
  // of entries; the chance that an utterance of a step has the loss of RNN-T instead.
  std::vector<int64_t> durations = {0, 1, 2, 3, 4};
  double sigma = 0.0;
  double omega = 0.0;

  void visit(OptionVisitor& visitor);
};

struct ParakeetOptions {
  // Features of the waveform; refused where the data has stored features and these are not the
  // defaults.
  kernels::LogMelOptions features = kernels::LogMelOptions::of_kind(kernels::LogMelKind::kNemo);
  // Masks on normalised features, including stored ones.
  nn::SpecAugmentOptions spec_augment;
  int64_t subsampling_factor = 8;
  int64_t subsampling_channels = 256;
  // Multiplies the first block's input by the square root of the width.
  bool scale_input = true;
  int64_t layers = 24;
  int64_t width = 1024;
  int64_t heads = 8;
  // Width inside the feed-forward parts.
  int64_t hidden = 4096;
  int64_t kernel = 9;
  nn::InnerNormKind convolution_norm = nn::InnerNormKind::kFrozenBatch;
  // Biases in the products and convolutions of a block.
  bool biases = true;
  // Dropout probabilities: of the first block's input, of the results of a block's parts, inside
  // its feed-forward parts.
  double input_dropout = 0.1;
  double dropout = 0.1;
  double activation_dropout = 0.1;
  // Probability that a layer is skipped in a step.
  double layer_drop = 0.0;
  // Frozen layers freeze everything before them.
  int64_t freeze_layers = 0;
  ParakeetObjective objective = ParakeetObjective::kCtc;
  TransducerOptions transducer;
  // Nodes of the lattice in a chunk of the transducer's loss; 0: as many as 64 MiB of logits hold.
  int64_t loss_rows = 0;

  bool has_transducer() const { return objective != ParakeetObjective::kCtc; }
  bool has_durations() const { return objective == ParakeetObjective::kTdt; }

  void visit(OptionVisitor& visitor);
  void validate() const;
};

}  // namespace sotto::models
