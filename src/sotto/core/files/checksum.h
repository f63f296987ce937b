// XXH64, the 64-bit hash of https://xxhash.com: of a file's bytes while they are written, and again
// when they are read, to notice a disk or a copy that changed one. Fast enough not to hold up a
// disk; `xxhsum -H1 FILE` prints the same number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto {

// What a file had in it when it was written.
struct FileSum {
  int64_t num_bytes = 0;
  uint64_t checksum = 0;

  friend bool operator==(const FileSum&, const FileSum&) = default;
};

class Checksum {
 public:
  // The next bytes.
  void add(std::span<const std::byte> bytes);

  // Of all bytes so far.
  uint64_t value() const;
  FileSum sum() const { return {.num_bytes = num_bytes_, .checksum = value()}; }

 private:
  static constexpr size_t kStripe = 32;

  // Returns how many bytes they took.
  size_t add_stripes(std::span<const std::byte> bytes);

  std::array<uint64_t, 4> lanes_ = kFirstLanes;
  // Bytes behind the last whole stripe.
  std::array<std::byte, kStripe> rest_ = {};
  int64_t num_bytes_ = 0;

  static const std::array<uint64_t, 4> kFirstLanes;
};

}  // namespace sotto
