// Arguments of the CUDA version of BatchNorm, and formulas of both versions. N rows, D channels, S
// slabs of rows.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

// Number of vectors of a slab's statistics: the sum of its rows, from which its rounded mean
// follows, then the sums of the differences from that mean and of their squares. The second is what
// the mean lost by rounding.
inline constexpr int64_t kSlabStatistics = 3;

// Returns the first row of a slab, which is where the slab before it ends.
constexpr int64_t first_row_of_slab(int64_t index, int64_t num_rows, int64_t num_slabs) {
  return num_rows * index / num_slabs;
}

// Mean and mean squared distance from it, of one channel in some rows.
struct ChannelStatistics {
  double mean;
  double variance;
};

// Returns the statistics of some rows together with `added` ones, whose share in all rows is
// `share`. With a share of 1 there are no others.
constexpr ChannelStatistics combine_statistics(const ChannelStatistics& before,
                                               const ChannelStatistics& added, double share) {
  if (share == 1.0) return added;
  const double distance = added.mean - before.mean;
  return {before.mean + share * distance, (1.0 - share) * before.variance + share * added.variance +
                                              share * (1.0 - share) * distance * distance};
}

constexpr double move_average(double average, double value, double momentum) {
  return (1.0 - momentum) * average + momentum * value;
}

struct BatchStatistics {
  CudaArray x;                // [N, D]
  CudaArray partial;          // [S, 3 D], workspace
  CudaArray mean;             // [D]
  CudaArray variance;         // [D]
  CudaArray staged_mean;      // [D], updated; without data: none
  CudaArray staged_variance;  // [D], updated; without data: none
  int64_t staged_rows = 0;    // including these N rows
};

struct BatchNormCommit {
  CudaArray staged_mean;      // [D]
  CudaArray staged_variance;  // [D]
  int64_t staged_rows = 0;
  CudaArray running_mean;      // [D], updated
  CudaArray running_variance;  // [D], updated
  double momentum = 0.0;
};

struct BatchNormForward {
  CudaArray x;         // [N, D]
  CudaArray y;         // [N, D]
  CudaArray mean;      // [D]
  CudaArray variance;  // [D]
  CudaArray gamma;     // [D]
  CudaArray beta;      // [D]
  float epsilon = 0.0f;
};

struct BatchNormBackward {
  CudaArray dy;          // [N, D]
  CudaArray x;           // [N, D]
  CudaArray dx;          // [N, D]
  CudaArray mean;        // [D]
  CudaArray variance;    // [D]
  CudaArray gamma;       // [D]
  CudaArray partial;     // [S, 2 D], workspace: sums over rows for gamma, then for beta
  CudaArray totals;      // [2, D], workspace
  CudaArray grad_gamma;  // [D], added to
  CudaArray grad_beta;   // [D], added to
  float epsilon = 0.0f;
};

}  // namespace sotto::kernels
