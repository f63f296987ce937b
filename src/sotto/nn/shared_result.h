// A tensor that several layers read, such as an encoder's result under CTC and cross-attention. It
// is kept once, and its gradient is one buffer that each reader's backward adds to.
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

  // Adds what a reader's backward found for the value; that of the first becomes the buffer.
  void add_gradient(at::Tensor gradient) {
    if (gradient_.defined()) {
      kernels::ResidualAdd::accumulate(gradient_, gradient);
    } else {
      gradient_ = std::move(gradient);
    }
  }

  // The whole gradient, after the backward of every reader. Lets the value go.
  at::Tensor take_gradient() {
    SOTTO_ASSERT(gradient_.defined(), "no reader had a backward");
    value_.reset();
    return std::exchange(gradient_, {});
  }

 private:
  at::Tensor value_;
  at::Tensor gradient_;
};

// Another pack that a layer looks at, and its rows.
struct SeenPack {
  const kernels::Packing& packing;
  SharedResult& result;
};

}  // namespace sotto::nn
