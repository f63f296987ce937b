// A tensor that several layers read, such as an encoder's result used by CTC and cross-attention.
// It is stored once, and its gradient is one buffer that each reader's backward adds to.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "sotto/core/error.h"
#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/elementwise/residual_add.h"

namespace sotto::nn {

class SharedResult {
 public:
  void put(at::Tensor value) { value_ = std::move(value); }
  const at::Tensor& value() const {
    SOTTO_ASSERT(value_.defined(), "nothing is shared");
    return value_;
  }

  // Adds the gradient from one reader's backward; the first becomes the buffer.
  void add_gradient(at::Tensor gradient) {
    if (gradient_.defined()) {
      kernels::ResidualAdd::accumulate(gradient_, gradient);
    } else {
      gradient_ = std::move(gradient);
    }
  }

  // Whether a reader had a backward: a step may skip all of them.
  bool has_gradient() const { return gradient_.defined(); }

  // Returns the whole gradient, after the backward of every reader. Releases the value.
  at::Tensor take_gradient() {
    SOTTO_ASSERT(gradient_.defined(), "no reader had a backward");
    value_.reset();
    return std::exchange(gradient_, {});
  }

 private:
  at::Tensor value_;
  at::Tensor gradient_;
};

// The rows of another pack that a layer attends to.
struct SeenPack {
  const kernels::Packing& packing;
  SharedResult& result;
  // False where nothing that computed them is trained: they need no gradient.
  bool has_backward = true;
};

}  // namespace sotto::nn
