// Arguments of the CPU and CUDA versions of DepthwiseConvolution, and the tiles of frames that they
// process. Internal to that kernel. N frames, C channels, K taps, S slabs.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

// Adjacent frames of one utterance.
struct FrameTile {
  int64_t begin = 0;
  int64_t end = 0;
  // The frames of the utterance.
  int64_t first = 0;
  int64_t stop = 0;

  constexpr int64_t size() const { return end - begin; }
};

// Divides the frames of a pack into tiles of `size` frames, each of one utterance, whose last tile
// may be shorter. Some indices have an empty tile, which avoids a table of offsets. `Start` is the
// type of the cumulative lengths.
template <class Start>
struct FrameTiles {
  const Start* starts = nullptr;  // [utterances + 1]
  int64_t num_utterances = 0;
  int64_t size = 1;

  // Returns the index of the first tile of an utterance.
  constexpr int64_t first_of(int64_t utterance) const {
    return starts[utterance] / size + utterance;
  }

  constexpr FrameTile at(int64_t index) const {
    int64_t utterance = 0;
    int64_t last = num_utterances - 1;
    while (utterance < last) {
      const int64_t middle = (utterance + last + 1) / 2;
      if (first_of(middle) <= index) {
        utterance = middle;
      } else {
        last = middle - 1;
      }
    }
    const int64_t first = starts[utterance];
    const int64_t stop = starts[utterance + 1];
    const int64_t begin = first + (index - first_of(utterance)) * size;
    const int64_t begin_inside = begin < stop ? begin : stop;
    const int64_t end = begin + size < stop ? begin + size : stop;
    return {.begin = begin_inside, .end = end, .first = first, .stop = stop};
  }
};

// Returns the number of tile indices of a pack.
constexpr int64_t num_frame_tiles(int64_t num_utterances, int64_t num_frames, int64_t size) {
  return num_frames / size + num_utterances;
}

// Direction of the taps: the gradient of the input is a convolution with the taps in reverse order.
enum class TapOrder { kForward, kReverse };

// y = convolution of x with the taps, + bias.
struct DepthwiseArrays {
  CudaArray x;     // [N, C]
  CudaArray taps;  // [K, C] fp32
  CudaArray bias;  // [C] fp32; without data: none
  CudaArray y;     // [N, C]
};

// Sums over frames for the gradients of weight and bias.
struct DepthwiseGradients {
  CudaArray dy;       // [N, C]
  CudaArray x;        // [N, C]
  CudaArray partial;  // [S, (K + 1) C] fp32, workspace: a row for each tap, then one for the bias
  CudaArray grad_weight;  // [C, K] fp32, added to
  CudaArray grad_bias;    // [C] fp32, added to; without data: none
  int64_t num_taps = 0;
};

}  // namespace sotto::kernels
