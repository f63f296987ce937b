// Sizes of a grouped convolution and indexing of its arrays, for all device versions of
// GroupedConvolution. Internal to that kernel.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

// D width, C channels per group, K taps, S frames per block.
//
// Three arrays of a group are indexed here. Its taps [C, K + 2 (S - 1), C]: for each input channel,
// the weights of all output channels, tap by tap, with zeros at both ends. Its matrix [(S + K - 1)
// C, S C]: a row for each channel of each frame that a block sees, a column for each channel of
// each of its own frames. The matrix's gradient, of the same shape.
struct ConvolutionShape {
  int64_t width = 0;
  int64_t channels = 0;
  int64_t taps = 0;
  int64_t block = 0;

  // Number of frames that a block sees.
  constexpr int64_t window() const { return block + taps - 1; }
  constexpr int64_t matrix_rows() const { return window() * channels; }
  constexpr int64_t matrix_columns() const { return block * channels; }
  // Length of a channel's taps, including zeros.
  constexpr int64_t padded_taps() const { return taps + 2 * (block - 1); }

  // Frame f of a block sees frame j of its window through tap j - f. The taps are stored in
  // descending order, so that a row of the matrix, for one channel of frame j, is a contiguous part
  // of them. Returns the start of that part.
  constexpr int64_t row_in_taps(int64_t frame, int64_t channel) const {
    return (channel * padded_taps() + window() - 1 - frame) * channels;
  }
};

// Direction of the taps. The gradient of the input is a convolution with the same weights, with
// input and output channels exchanged and the taps reversed.
enum class ConvolutionDirection { kForward, kInputGradient };

// Maps the taps of a group to its weights [C, C, K].
struct TapSource {
  ConvolutionShape shape;
  ConvolutionDirection direction = ConvolutionDirection::kForward;

  // Returns the tap at a position of a channel's taps: outside of 0 .. K - 1 it is zero.
  constexpr int64_t tap_at(int64_t index) const {
    const int64_t upwards = index - (shape.block - 1);
    return direction == ConvolutionDirection::kForward ? shape.taps - 1 - upwards : upwards;
  }
  // Returns the index of the first tap from an input channel to an output channel.
  constexpr int64_t first_weight(int64_t read, int64_t written) const {
    const bool is_forward = direction == ConvolutionDirection::kForward;
    const int64_t output = is_forward ? written : read;
    const int64_t input = is_forward ? read : written;
    return (output * shape.channels + input) * shape.taps;
  }
};

struct CudaTaps {
  CudaArray weight;  // [C, C, K], of one group
  CudaArray taps;    // [C, K + 2 (S - 1), C]
  TapSource source;
};

// Frames of one group and the rows of some blocks: either the concatenated frames that a block
// sees, or its own.
struct CudaBlockRows {
  CudaArray frames;  // [N, D]
  CudaArray rows;    // [R, frames per row * C]
  CudaPack pack;     // N frames
  CudaPack blocks;   // M blocks
  ConvolutionShape shape;
  int64_t first_block = 0;
  int64_t first_channel = 0;
  // Number of frames of a row before the block.
  int64_t before = 0;
};

}  // namespace sotto::kernels
