// Batch normalisation: each channel over all rows of a pack, all of which are real frames. N rows,
// D channels.
//
// The statistics are either those of the batch, whose results then depend on which rows are
// computed together, or constants: an affine map per channel.
//
// Averages over steps are made in two parts: statistics() adds a batch to the stage of its step,
// and commit() moves the averages towards the stage once the step is complete.
//
// Allocates: statistics the mean and the variance; forward y; backward dx. As workspace, in fp32:
// statistics sums of slabs of rows [slabs, 3, D]; backward [slabs, 2, D] and [2, D].
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct BatchNorm {
  // What the statistics are in backward: functions of x, or constants.
  enum class Kind { kBatch, kConstant };

  struct Statistics {
    at::Tensor mean;      // [D] fp32
    at::Tensor variance;  // [D] fp32; of a batch the mean of the squared distances
  };

  // Statistics of all rows of a step so far, as if they were one batch.
  struct Stage {
    at::Tensor mean;      // [D] fp32
    at::Tensor variance;  // [D] fp32, the mean of the squared distances
    // With 0 rows the values are never read.
    int64_t rows = 0;
  };

  // Moving averages of the statistics of steps, which replace those of batches in evaluation.
  struct Running {
    at::Tensor& mean;      // [D] fp32
    at::Tensor& variance;  // [D] fp32, unbiased: for N - 1 rows
    // Weight of the newest step.
    double momentum = 0.1;
  };

  struct Parameters {
    const at::Tensor& gamma;  // [D] fp32
    const at::Tensor& beta;   // [D] fp32
    double epsilon = 1e-5;
  };

  struct BackwardInputs {
    const at::Tensor& dy;  // [N, D]
    const at::Tensor& x;   // [N, D]
    const Statistics& statistics;
    const at::Tensor& gamma;  // [D]
    double epsilon = 1e-5;
  };

  struct Gradients {
    at::Tensor& gamma;  // [D] fp32, added to
    at::Tensor& beta;   // [D] fp32, added to
  };

  // Returns the statistics of the rows of x [N, D], and adds the rows to the stage.
  static Statistics statistics(const at::Tensor& x, Stage* stage = nullptr);

  // Updates the running averages with a stage of at least one row. A single row has no unbiased
  // variance: it leaves the running variance as it is.
  static void commit(const Stage& stage, const Running& running);

  // y = (x - mean) / sqrt(variance + epsilon) gamma + beta, for x [N, D].
  static at::Tensor forward(const at::Tensor& x, const Statistics& statistics,
                            const Parameters& parameters);

  // Returns dx [N, D]; adds to the parameters' gradients.
  static at::Tensor backward(const BackwardInputs& in, const Gradients& gradients, Kind kind);
};

}  // namespace sotto::kernels
