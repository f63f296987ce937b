// The norm inside a convolution module, after its depthwise convolution. N frames, C channels.
//
//   layer          each frame over its channels
//   group          each utterance over its frames and the channels of a group
//   batch_frozen   an affine map per channel, with a constant mean and variance
//   batch          each channel over all frames of the micro-batch, or, in evaluation, by running
//                  averages
//
// With `batch` a result depends on how a step is split into micro-batches. The running averages
// follow the statistics of whole steps: forward stages them, and the update commits them.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>

#include "sotto/core/config/options.h"
#include "sotto/kernels/base/packing.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

enum class InnerNormKind { kLayer, kGroup, kFrozenBatch, kBatch };

inline constexpr std::array kInnerNormKinds = {
    Named{"layer", InnerNormKind::kLayer}, Named{"group", InnerNormKind::kGroup},
    Named{"batch_frozen", InnerNormKind::kFrozenBatch}, Named{"batch", InnerNormKind::kBatch}};

struct InnerNormOptions {
  int64_t width = 256;
  InnerNormKind kind = InnerNormKind::kLayer;
  // Groups of channels of a group norm.
  int64_t num_groups = 1;
  // 0: the default, 1e-5.
  double epsilon = 0.0;
};

class InnerNorm {
 public:
  InnerNorm(ParameterStore& store, const std::string& name, const InnerNormOptions& options);

  // Returns the statistics that forward and recomputation share, mean and variance [C]: those of
  // the batch, which are staged for the running averages, or constants. Empty for the other kinds,
  // which compute theirs with y. Called once per forward.
  LayerTape::Tensors statistics(const at::Tensor& x, const Context& context) const;

  // Returns y [N, C] for x [N, C], followed by what backward needs.
  LayerTape::Tensors forward(const at::Tensor& x, const LayerTape::Tensors& statistics,
                             const kernels::Packing& packing) const;

  // Returns dx [N, C] for dy [N, C]; `result` is forward's, whose y is not read. Accumulates into
  // the parameters' gradients.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& x, const LayerTape::Tensors& result,
                      const kernels::Packing& packing) const;

  bool has_statistics() const { return running_mean_ != nullptr; }

 private:
  InnerNormOptions options_;
  // Owned by the store.
  Parameter& gamma_;             // [C]
  Parameter& beta_;              // [C]
  Parameter* running_mean_;      // [C], of batch norms
  Parameter* running_variance_;  // [C], of batch norms
  RunningStatistics* averages_;  // the same two, if they are trained
};

}  // namespace sotto::nn
