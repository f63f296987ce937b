// Counter-based random numbers keyed by what they are for. There is no state: the n-th number of a
// key is a function of the key and n, so that it does not depend on the order of work, the split
// into micro-batches, or what is recomputed.
//
//   const RandomStream stream({.seed = 1, .purpose = Purpose::kDropout, .step = 40, .layer = 3},
//   utterance_key); float u = stream.uniform(n);
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/core/philox.h"

namespace sotto {

// What a number is for; part of its key. Values are part of the file format of a run: add at the
// end.
enum class Purpose : uint32_t {
  kInitialisation = 0,
  kShuffle = 1,
  kDropout = 2,
  kLayerDrop = 3,
  kAugmentation = 4,
  kRounding = 5
};

// What is common to all utterances of a draw.
struct RandomKey {
  uint64_t seed = 0;
  Purpose purpose = Purpose::kInitialisation;
  uint64_t step = 0;   // or epoch, as the purpose has it
  uint64_t layer = 0;  // or another place in the model
};

// An utterance's part of the key: its number in the manifest, with segment and copy where it was
// cut or augmented.
struct UtteranceKey {
  uint64_t utterance = 0;
  uint32_t segment = 0;
  uint32_t copy = 0;
};

// 64 bits in which every bit of the fields takes part.
PhiloxKey fold(const RandomKey& key);
uint64_t fold(const UtteranceKey& key);

class RandomStream {
 public:
  explicit RandomStream(const RandomKey& key, const UtteranceKey& utterance = {});

  // The n-th 32 random bits.
  uint32_t bits(uint64_t n) const;
  // Uniform in [0, 1), a multiple of 2^-24.
  float uniform(uint64_t n) const;
  // Standard normal (Box-Muller).
  float normal(uint64_t n) const;
  // Numbers first, first + 1, ... of normal(), four at a time; `first` is a multiple of four.
  void fill_normal(std::span<float> values, uint64_t first) const;
  // True with the given probability, to 2^-32.
  bool bernoulli(uint64_t n, double probability) const;
  // A uniformly random order of 0 .. size - 1.
  std::vector<int64_t> permutation(int64_t size) const;

 private:
  PhiloxCounter block(uint64_t index) const;
  // Numbers 4 * index .. 4 * index + 3 of normal().
  std::array<float, 4> normal_block(uint64_t index) const;

  PhiloxKey key_;
  uint64_t utterance_;
};

}  // namespace sotto
