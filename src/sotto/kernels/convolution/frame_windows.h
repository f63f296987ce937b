// Copies the frames that each step of a strided convolution over time sees into one row: a product
// with the weights is then the convolution. N frames of a pack, D width, W frames per window. An
// utterance of T frames has ceil(T / stride) windows; frames outside of it are zero. With W equal
// to the stride and no frames before the first, it stacks frames.
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
    // Number of frames before the first frame of an utterance that its first window sees.
    int64_t before = 1;
  };

  // Packings of input and output; `to` has the lengths of windowed_lengths().
  struct Packings {
    const Packing& from;  // N frames
    const Packing& to;    // M windows
  };

  // Returns the number of windows of each utterance.
  static std::vector<int64_t> windowed_lengths(const std::vector<int64_t>& lengths, int64_t stride);

  // Returns windows [M, W D] of x [N, D]: the concatenated frames of each window.
  static at::Tensor forward(const at::Tensor& x, const Packings& packings, const Options& options);

  // Returns dx [N, D] of dy [M, W D].
  static at::Tensor backward(const at::Tensor& dy, const Packings& packings,
                             const Options& options);
};

}  // namespace sotto::kernels
