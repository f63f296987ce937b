// What the loss of a step is, from those of its utterances.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sotto::models {

enum class Reduction {
  kSum,         // their sum
  kTokens,      // their sum over the number of labels of the step
  kUtterances,  // their mean
  kCtcMean,     // PyTorch's and Hugging Face's "mean": each over its own number of labels, at least
                // one; then their mean
};

// The weight of each utterance of a step, all of its micro-batches together, in the order of
// `label_lengths`. Utterances that cannot be aligned count in every denominator like all others, as
// with PyTorch's zero_infinity: a weight follows from the lengths alone.
std::vector<float> utterance_weights(Reduction reduction, std::span<const int64_t> label_lengths);

// The weights multiplied by that of a term of the loss.
std::vector<float> scaled(std::span<const float> weights, double by);

}  // namespace sotto::models
