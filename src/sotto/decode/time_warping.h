// Times of tokens by the heads of a decoder's cross-attention that follow the audio (Whisper's
// alignment_heads): their weights are normalised over the tokens, smoothed over the frames,
// averaged, and the best way through tokens and frames is found by dynamic time warping. As in
// OpenAI's timing.py and transformers' `_extract_token_timestamps`. A heads, L tokens, M frames.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sotto::decode {

struct HeadWeights {
  std::span<const float> values = {};  // [A, L, M], row-major
  int64_t num_heads = 0;
  int64_t num_frames = 0;
};

// Returns the first frame of each token, in order. Tokens may share a frame.
std::vector<int64_t> warped_frames(const HeadWeights& weights, int64_t filter_width = 7);

// Returns each value's median among `width` values around it, an odd number; ends are mirrored.
// Rows of up to width / 2 values are returned as they are.
std::vector<float> median_filtered(std::span<const float> row, int64_t width);

// The cells of a path through a matrix, from its first to its last.
struct WarpPath {
  std::vector<int64_t> rows = {};
  std::vector<int64_t> columns = {};
};

// Returns the path with the least sum of costs [L, M] on which each step increases the row, the
// column or both by one.
WarpPath cheapest_path(std::span<const double> costs, int64_t num_columns);

}  // namespace sotto::decode
