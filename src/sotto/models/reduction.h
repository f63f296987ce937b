// Reduces the losses of utterances to the loss of a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sotto::models {

enum class Reduction {
  kSum,         // sum
  kTokens,      // sum divided by the number of labels of the step
  kUtterances,  // mean
  kCtcMean,     // "mean" of PyTorch and Hugging Face: each divided by its own number of labels, at
                // least one; then their mean
};

// Returns the weight of each utterance of a step, over all of its micro-batches, in the order of
// `label_lengths`. Utterances that cannot be aligned count in every denominator like all others, as
// with PyTorch's zero_infinity: a weight depends only on the lengths.
std::vector<float> utterance_weights(Reduction reduction, std::span<const int64_t> label_lengths);

// Returns the weights multiplied by that of a term of the loss.
std::vector<float> scaled(std::span<const float> weights, double by);

}  // namespace sotto::models
