#include "sotto/models/parakeet/parakeet_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "sotto/models/option_checks.h"

namespace sotto::models {

namespace {

constexpr RealRange kProbability{.min = 0, .below = 1};

// Throws for durations with which most utterances have no alignment.
void check_durations(const std::vector<int64_t>& durations) {
  const std::set<int64_t> different(durations.begin(), durations.end());
  const bool is_usable = different.contains(0) && different.contains(1) &&
                         different.size() == durations.size() &&
                         std::ssize(durations) <= kernels::Transducer::kMaxDurations;
  if (!is_usable)
    refuse_settings(
        fmt::format("transducer.durations [{}]", fmt::join(durations, ", ")),
        fmt::format("0, 1 and up to {} others, each once", kernels::Transducer::kMaxDurations - 2));
}

}  // namespace

void TransducerOptions::visit(OptionVisitor& visitor) {
  visitor.value("layers", layers, "LSTM layers of the prediction network", {.min = 1, .max = 16});
  visitor.value("width", width, "values per label in the prediction network",
                {.min = 1, .max = 16'384});
  visitor.value("joint_width", joint_width, "values per node in the joint network",
                {.min = 1, .max = 16'384});
  visitor.value("dropout", dropout, "dropout probability after each LSTM layer", kProbability);
  visitor.value("joint_dropout", joint_dropout,
                "dropout probability after the joint network's ReLU", kProbability);
  visitor.value("train_start", train_start,
                "train the embedding of the blank, which starts a sequence, as transformers does");
  visitor.value("durations", durations, "for tdt: frames by which an emission may advance",
                {.min = 0, .max = 100});
  visitor.value("sigma", sigma, "for tdt: subtracted from the log-probabilities of entries",
                {.min = 0, .max = 1});
  visitor.value("omega", omega,
                "for tdt: chance that an utterance of a step has the loss of rnnt instead",
                {.min = 0, .max = 1});
}

void ParakeetOptions::visit(OptionVisitor& visitor) {
  visitor.group("features", features, "log-mel features of the waveform");
  visitor.group("spec_augment", spec_augment, "masking of features in training");
  visitor.value("subsampling_factor", subsampling_factor,
                "input frames per encoder frame: 2, 4 or 8", {.min = 2, .max = 8});
  visitor.value("subsampling_channels", subsampling_channels,
                "channels of the convolutions before the blocks", {.min = 1, .max = 16'384});
  visitor.value("scale_input", scale_input,
                "multiply the first block's input by the square root of the width");
  visitor.value("layers", layers, "FastConformer blocks", {.min = 1, .max = 200});
  visitor.value("width", width, "values per encoder frame", {.min = 2, .max = 16'384});
  visitor.value("heads", heads, "attention heads; must divide the width", {.min = 1, .max = 256});
  visitor.value("hidden", hidden, "feed-forward width", {.min = 1, .max = 65'536});
  visitor.value("kernel", kernel, "frames that the convolution of a block sees; odd",
                {.min = 1, .max = 1'023});
  visitor.choice("convolution_norm", convolution_norm, "norm inside the convolution module",
                 nn::kInnerNormKinds);
  visitor.value("biases", biases, "biases in the products and convolutions of a block");
  visitor.value("input_dropout", input_dropout, "dropout probability of the first block's input",
                kProbability);
  visitor.value("dropout", dropout, "dropout probability of the results of a block's parts",
                kProbability);
  visitor.value("activation_dropout", activation_dropout,
                "dropout probability inside the feed-forward parts", kProbability);
  visitor.value("layer_drop", layer_drop, "probability that a step skips a layer", kProbability);
  visitor.value("freeze_layers", freeze_layers,
                "number of first layers not to train, with everything before them",
                {.min = 0, .max = 200});
  visitor.choice("objective", objective,
                 "head that is trained: ctc, or a transducer without or with durations",
                 kParakeetObjectives);
  visitor.group("transducer", transducer, "the head of the objectives rnnt and tdt");
  visitor.value("loss_rows", loss_rows,
                "nodes of a transducer's lattice whose logits are computed at a time; 0: 64 MiB of "
                "logits",
                {.min = 0, .max = 1'000'000'000});
}

void ParakeetOptions::validate() const {
  check_conformer_block(width, heads, kernel);
  check_subsampling_factor(subsampling_factor);
  if (freeze_layers > layers)
    refuse_settings(fmt::format("freeze_layers {} of {} layers", freeze_layers, layers),
                    "at most all of them");
  if (has_durations()) check_durations(transducer.durations);
}

}  // namespace sotto::models
