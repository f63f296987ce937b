// Ends a run before its last step when evaluations stop improving.
#pragma once

#include <cstdint>
#include <limits>

namespace sotto::train {

struct EarlyStoppingOptions {
  // Number of consecutive evaluations without improvement that are allowed; 0 disables early
  // stopping.
  int64_t patience = 0;
  // Decrease of the metric that counts as an improvement.
  double difference = 0.0;
};

// State of early stopping; plain numbers, stored in checkpoints.
struct EarlyStopping {
  // Metric of the last evaluation that improved by the difference; lower is better.
  double best = std::numeric_limits<double>::infinity();
  // Evaluations since then.
  int64_t num_worse = 0;

  // Called after an evaluation. A metric that is NaN is no improvement.
  void update(const EarlyStoppingOptions& options, double metric) {
    const bool is_better = metric < best - options.difference;
    num_worse = is_better ? 0 : num_worse + 1;
    if (is_better) best = metric;
  }

  bool is_over(const EarlyStoppingOptions& options) const {
    return options.patience > 0 && num_worse >= options.patience;
  }
};

}  // namespace sotto::train
