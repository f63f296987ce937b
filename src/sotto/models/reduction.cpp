#include "sotto/models/reduction.h"

#include <algorithm>

namespace sotto::models {

std::vector<float> utterance_weights(Reduction reduction, std::span<const int64_t> label_lengths) {
  const auto num_utterances = static_cast<double>(label_lengths.size());
  double num_labels = 0.0;
  for (const int64_t length : label_lengths) num_labels += static_cast<double>(length);
  std::vector<float> weights;
  for (const int64_t length : label_lengths) {
    double weight = 1.0;
    switch (reduction) {
      case Reduction::kSum: break;
      case Reduction::kTokens: weight = 1.0 / std::max(1.0, num_labels); break;
      case Reduction::kUtterances: weight = 1.0 / num_utterances; break;
      case Reduction::kCtcMean:
        weight = 1.0 / (num_utterances * std::max(1.0, static_cast<double>(length)));
        break;
    }
    weights.push_back(static_cast<float>(weight));
  }
  return weights;
}

std::vector<float> scaled(std::span<const float> weights, double by) {
  std::vector<float> products;
  for (const float weight : weights) products.push_back(weight * static_cast<float>(by));
  return products;
}

}  // namespace sotto::models
