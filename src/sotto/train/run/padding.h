// The compute that padded batches would have wasted on a run's data: a fact for reports. Nothing in
// this program pads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/data/batch/sampler.h"

namespace sotto::train {

struct Padding {
  // Items per batch; 0: not known.
  int64_t batch = 0;
  // Shares of the padded batches that are padding: with the items of each step as one batch, and
  // with batches of items sorted by length.
  double shuffled_share = 0.0;
  double sorted_share = 0.0;
};

// `lengths`: of all items, in any unit.
Padding padding_of(std::span<const float> lengths, const data::EpochOrder& epoch);

}  // namespace sotto::train
