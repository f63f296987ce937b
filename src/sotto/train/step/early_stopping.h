// When a run ends before its last step because evaluations get no better.
#pragma once

#include <cstdint>
#include <limits>

namespace sotto::train {

struct EarlyStoppingOptions {
  // Evaluations in a row that may be no better than the best; 0: the run goes to its end.
  int64_t patience = 0;
  // How much lower the metric must be to count as better.
  double difference = 0.0;
};

// What it remembers: plain numbers, for a checkpoint.
struct EarlyStopping {
  // The metric of the last evaluation that was better by the difference; less is better.
  double best = std::numeric_limits<double>::infinity();
  // Evaluations since.
  int64_t num_worse = 0;

  // After an evaluation. A metric that is no number is no better.
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
