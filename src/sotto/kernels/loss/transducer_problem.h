// The tensors of a chunk as seen by Transducer's shared part and its CPU version. Internal to that
// kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/loss/transducer_task.h"

namespace sotto::kernels {

struct TransducerTensors {
  at::Tensor encoder;     // [sum of T, J]
  at::Tensor prediction;  // [sum of (U + 1), J]
  at::Tensor joint;       // [R, J], values after the dropout
  at::Tensor d_joint;     // [R, J], their gradient
  at::Tensor logits;      // [R, E + D and padding], replaced by the gradient
};

}  // namespace sotto::kernels
