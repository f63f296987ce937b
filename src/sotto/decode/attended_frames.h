// Times of tokens by the attention of a decoder, for networks without CTC.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/models/scorer.h"

namespace sotto::decode {

// What the decoder is given before the tokens, and what it may attend to.
struct AttendedInput {
  // The tokens of each utterance that come first; empty: the network's own start.
  std::span<const std::vector<int32_t>> prompts = {};
  // The first frames of each utterance that count: those of its audio where it is padded. Empty:
  // all.
  std::span<const int64_t> num_frames = {};
};

// Returns the frame of each token of each utterance: the decoder is run once more over the tokens,
// and its attention to the encoder's frames before each token gives the path: forward_path() for
// the mean of heads, warped_frames() where the network names heads that follow the audio. On Meta a
// dry run.
std::vector<std::vector<int64_t>> attended_frames(models::Scorer& scorer,
                                                  const std::vector<std::vector<int32_t>>& tokens,
                                                  const AttendedInput& input = {});

// Returns the best path forward through weights [L, M] of L tokens and M frames: each token has one
// or more consecutive frames, the path maximises the product of the weights, and the frame of a
// token is that of its largest weight on the path. More tokens than frames are spread evenly.
std::vector<int64_t> forward_path(std::span<const float> weights, int64_t num_frames);

}  // namespace sotto::decode
