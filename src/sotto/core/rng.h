// Counter-based random numbers, keyed by their purpose. There is no state: the n-th number of a key
// is a function of the key and n, so it does not depend on the order of work, the split into
// micro-batches, or what is recomputed.
//
//   const RandomStream stream({.seed = 1, .purpose = Purpose::kDropout, .step = 40}, key);
//   float u = stream.uniform(n);
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/core/philox.h"

namespace sotto {

// Purpose of a random number; part of its key. The values are part of the file format of a run:
// append new ones at the end.
enum class Purpose : uint32_t {
  kInitialisation = 0,
  kShuffle = 1,
  kDropout = 2,
  kLayerDrop = 3,
  kAugmentation = 4,
  kRounding = 5,
  // Which loss an utterance has in a step.
  kLossChoice = 6,
  // Tokens of a transcript that are drawn instead of chosen.
  kSampling = 7
};

// The part of the key that all utterances of a draw share.
struct RandomKey {
  uint64_t seed = 0;
  Purpose purpose = Purpose::kInitialisation;
  uint64_t step = 0;   // or the epoch, depending on the purpose
  uint64_t layer = 0;  // or another position in the model
};

// The utterance's part of the key: its index in the manifest, with segment and copy if it was cut
// or augmented.
struct UtteranceKey {
  uint64_t utterance = 0;
  uint32_t segment = 0;
  uint32_t copy = 0;
};

// Returns 64 bits that depend on every bit of all fields.
PhiloxKey fold(const RandomKey& key);
uint64_t fold(const UtteranceKey& key);

class RandomStream {
 public:
  explicit RandomStream(const RandomKey& key, const UtteranceKey& utterance = {});

  // Returns the n-th 32 random bits.
  uint32_t bits(uint64_t n) const;
  // Returns a uniform number in [0, 1), a multiple of 2^-24.
  float uniform(uint64_t n) const;
  // Returns a standard normal number (Box-Muller).
  float normal(uint64_t n) const;
  // Fills `values` with normal(first), normal(first + 1), ..., four at a time; `first` must be a
  // multiple of four.
  void fill_normal(std::span<float> values, uint64_t first) const;
  // Returns true with the given probability, to a precision of 2^-32.
  bool bernoulli(uint64_t n, double probability) const;
  // Returns a uniformly random permutation of 0 .. size - 1.
  std::vector<int64_t> permutation(int64_t size) const;

 private:
  PhiloxCounter block(uint64_t index) const;
  // Returns normal(4 * index) .. normal(4 * index + 3).
  std::array<float, 4> normal_block(uint64_t index) const;

  PhiloxKey key_;
  uint64_t utterance_;
};

}  // namespace sotto
