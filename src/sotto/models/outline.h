// The numbered parts of a network, used to plan memory, key random numbers and update weights:
// layers, terms of the loss, and whether it has a decoder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/nn/context.h"

namespace sotto::models {

// A part of the network with its own tape. Its number keys its random numbers.
struct NetworkLayer {
  // Prefix of its parameters' names.
  std::string prefix;
  // Blocks are what users count as layers; others are front ends and heads.
  bool is_block = false;
  // Layers of one stack have the same structure. A stack is numbered after all layers of the
  // previous one.
  int64_t stack = 0;
  // Probability that a step skips it and does not update it.
  double drop = 0.0;
};

// One part of the loss, such as CTC in addition to cross-entropy.
struct LossTerm {
  std::string name;
  double weight = 1.0;
};

// A stack of blocks PREFIX.0., PREFIX.1., ... and the other parts that are numbered after them.
struct StackOutline {
  std::string prefix;
  int64_t num_blocks = 0;
  std::vector<std::string> others = {};
  double drop = 0.0;
  // Number of first blocks that are never updated.
  int64_t num_frozen = 0;
};

struct Outline {
  std::vector<NetworkLayer> layers;
  std::vector<LossTerm> loss_terms;
  // Whether recognition gives scores of frames, for CTC.
  bool scores_frames = false;
  // Whether recognition gives scores of a transducer's lattice.
  bool scores_lattice = false;
  // Whether its decoder has Whisper's tokens and is given a prompt of them.
  bool has_whisper_tokens = false;
  // If set, micro-batches have a second pack: inputs and targets of a decoder, or the inputs of a
  // transducer's prediction network.
  std::optional<data::DecoderTokens> decoder = std::nullopt;

  int64_t num_blocks() const { return std::ranges::count_if(layers, &NetworkLayer::is_block); }

  // Appends the layers of a stack.
  void add(const StackOutline& stack);

  // Returns the prefixes of the layers that a step skips.
  std::vector<std::string> left_out(const nn::StepContext& step) const;
};

}  // namespace sotto::models
