#include "sotto/core/files/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sotto {

namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

// Constants of the specification (doc/xxhash_spec.md, "XXH64 Algorithm Description").
constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5;

template <class Word>
uint64_t word_at(const std::byte* bytes) {
  Word word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

constexpr uint64_t with_word(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

constexpr uint64_t with_lane(uint64_t hash, uint64_t lane) {
  return (hash ^ with_word(0, lane)) * kPrime1 + kPrime4;
}

// Adds the bytes that do not fill a stripe: words of eight bytes, one of four, then single bytes.
uint64_t with_rest(uint64_t hash, std::span<const std::byte> rest) {
  const std::byte* at = rest.data();
  const std::byte* const end = at + rest.size();
  for (; end - at >= 8; at += 8)
    hash = std::rotl(hash ^ with_word(0, word_at<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (end - at >= 4) {
    hash = std::rotl(hash ^ (word_at<uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at < end; ++at) hash = std::rotl(hash ^ (word_at<uint8_t>(at) * kPrime5), 11) * kPrime1;
  return hash;
}

constexpr uint64_t mixed(uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

// Initial lanes for a seed of 0.
const std::array<uint64_t, 4> Checksum::kFirstLanes = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};

// Uses local lanes, which the compiler keeps in registers.
size_t Checksum::add_stripes(std::span<const std::byte> bytes) {
  std::array<uint64_t, 4> lanes = lanes_;
  size_t at = 0;
  for (; at + kStripe <= bytes.size(); at += kStripe) {
    for (size_t lane = 0; lane < 4; ++lane)
      lanes[lane] = with_word(lanes[lane], word_at<uint64_t>(bytes.data() + at + 8 * lane));
  }
  lanes_ = lanes;
  return at;
}

void Checksum::add(std::span<const std::byte> bytes) {
  const auto num_rest = static_cast<size_t>(num_bytes_) % kStripe;
  num_bytes_ += std::ssize(bytes);
  if (num_rest > 0) {
    const size_t taken = std::min(bytes.size(), kStripe - num_rest);
    std::copy_n(bytes.begin(), taken, rest_.begin() + static_cast<std::ptrdiff_t>(num_rest));
    bytes = bytes.subspan(taken);
    if (num_rest + taken < kStripe) return;
    add_stripes(rest_);
  }
  bytes = bytes.subspan(add_stripes(bytes));
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
}

uint64_t Checksum::value() const {
  uint64_t hash = kPrime5;
  if (num_bytes_ >= static_cast<int64_t>(kStripe)) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = with_lane(hash, lane);
  }
  const auto num_rest = static_cast<size_t>(num_bytes_) % kStripe;
  return mixed(
      with_rest(hash + static_cast<uint64_t>(num_bytes_), std::span(rest_).first(num_rest)));
}

}  // namespace sotto
