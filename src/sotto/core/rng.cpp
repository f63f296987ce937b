#include "sotto/core/rng.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {

namespace {

constexpr uint32_t low(uint64_t value) {
  return static_cast<uint32_t>(value);
}
constexpr uint32_t high(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}

// Philox is a keyed bijection with full avalanche: chaining it yields the hash.
constexpr PhiloxKey mix(PhiloxKey key, uint64_t field, uint32_t position) {
  const PhiloxCounter mixed = philox({low(field), high(field), position, 0}, key);
  return {mixed[0], mixed[1]};
}

}  // namespace

PhiloxKey fold(const RandomKey& key) {
  PhiloxKey folded = {low(key.seed), high(key.seed)};
  folded = mix(folded, static_cast<uint64_t>(key.purpose), 1);
  folded = mix(folded, key.step, 2);
  return mix(folded, key.layer, 3);
}

uint64_t fold(const UtteranceKey& key) {
  // An uncut, uncopied utterance keeps its index as key: distinct by construction, and readable in
  // a debugger.
  if (key.segment == 0 && key.copy == 0) return key.utterance;
  const PhiloxCounter mixed = philox(
      {low(key.utterance), high(key.utterance), key.segment, key.copy}, {0x736f7474, 0x6f000000});
  return uint64_t{mixed[0]} << 32 | mixed[1];
}

RandomStream::RandomStream(const RandomKey& key, const UtteranceKey& utterance)
    : key_(fold(key)), utterance_(fold(utterance)) {}

PhiloxCounter RandomStream::block(uint64_t index) const {
  return philox({low(index), high(index), low(utterance_), high(utterance_)}, key_);
}

uint32_t RandomStream::bits(uint64_t n) const {
  return block(n / 4)[n % 4];
}

float RandomStream::uniform(uint64_t n) const {
  return static_cast<float>(bits(n) >> 8) * 0x1p-24f;
}

std::array<float, 4> RandomStream::normal_block(uint64_t index) const {
  const PhiloxCounter words = block(index);
  std::array<float, 4> normals = {};
  // Two words give two numbers. (word + 1) / 2^32 is in (0, 1], so the logarithm is finite.
  for (size_t pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2.0 * std::log((words[pair] + 1.0) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * (words[pair + 1] * 0x1p-32);
    normals[pair] = static_cast<float>(radius * std::cos(angle));
    normals[pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return normals;
}

float RandomStream::normal(uint64_t n) const {
  return normal_block(n / 4)[n % 4];
}

void RandomStream::fill_normal(std::span<float> values, uint64_t first) const {
  SOTTO_ASSERT(first % 4 == 0, "normal numbers from {}", first);
  for (size_t i = 0; i < values.size(); i += 4) {
    const std::array<float, 4> normals = normal_block((first + i) / 4);
    std::copy_n(normals.begin(), std::min<size_t>(4, values.size() - i),
                values.begin() + static_cast<int64_t>(i));
  }
}

bool RandomStream::bernoulli(uint64_t n, double probability) const {
  return bits(n) * 0x1p-32 < probability;
}

std::vector<int64_t> RandomStream::permutation(int64_t size) const {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  // Fisher-Yates with 64 random bits per draw: the bias of the remainder is below size / 2^64.
  for (int64_t i = size - 1; i > 0; --i) {
    const PhiloxCounter words = block(static_cast<uint64_t>(i));
    const uint64_t draw = uint64_t{words[0]} << 32 | words[1];
    std::swap(order[static_cast<size_t>(i)], order[draw % static_cast<uint64_t>(i + 1)]);
  }
  return order;
}

}  // namespace sotto
