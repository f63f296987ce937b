// XXH64, the 64-bit hash of https://xxhash.com, by libxxhash. It is computed when a file is written
// and again when it is read, to detect corruption by a disk or a copy. It is fast enough not to
// slow down a disk; `xxhsum -H1 FILE` prints the same number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace sotto {

// Size and checksum of a file when it was written.
struct FileSum {
  int64_t num_bytes = 0;
  uint64_t checksum = 0;

  friend bool operator==(const FileSum&, const FileSum&) = default;
};

class Checksum {
 public:
  Checksum();

  // Adds the next bytes.
  void add(std::span<const std::byte> bytes);

  // Returns the hash of all bytes added so far.
  uint64_t value() const;
  FileSum sum() const { return {.num_bytes = num_bytes_, .checksum = value()}; }

 private:
  struct State;
  struct Delete {
    void operator()(State* state) const;
  };

  std::unique_ptr<State, Delete> state_;
  int64_t num_bytes_ = 0;
};

}  // namespace sotto
