// The frames that each step of a strided convolution over time sees, side by side in one row: a
// product with the weights is then the convolution. N frames of a pack, D width, W frames a window.
// An utterance of T frames has ceil(T / stride) windows; what lies outside it is zero. With as many
// frames a window as its stride and none before the first, it stacks frames.
//
// Allocates: forward the windows; backward dx.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct FrameWindows {
  struct Options {
    int64_t size = 3;
    int64_t stride = 2;
    // Frames before the first one of an utterance that its first window sees.
    int64_t before = 1;
  };

  // Both ends of the operation; `to` has the lengths of windowed_lengths().
  struct Packings {
    const Packing& from;  // N frames
    const Packing& to;    // M windows
  };

  // The windows of each utterance.
  static std::vector<int64_t> windowed_lengths(const std::vector<int64_t>& lengths, int64_t stride);

  // Windows [M, W D] of x [N, D]: the frames of a window one behind the other.
  static at::Tensor forward(const at::Tensor& x, const Packings& packings, const Options& options);

  // dx [N, D] of dy [M, W D].
  static at::Tensor backward(const at::Tensor& dy, const Packings& packings,
                             const Options& options);
};

}  // namespace sotto::kernels
