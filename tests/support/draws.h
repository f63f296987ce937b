// Numbers of one random case, one after the other.
#pragma once

#include <cstdint>

#include "sotto/core/rng.h"

namespace sotto::test {

class Draws {
 public:
  Draws(uint64_t seed, uint64_t number) : stream_({.seed = seed, .step = number}) {}

  int64_t from(int64_t low, int64_t high) {
    const auto width = static_cast<float>(high - low + 1);
    return low + static_cast<int64_t>(stream_.uniform(next_++) * width);
  }
  template <class Table>
  auto one_of(const Table& table) {
    return table[static_cast<size_t>(from(0, std::ssize(table) - 1))].value;
  }
  bool coin() { return from(0, 1) == 1; }
  double share() { return double{stream_.uniform(next_++)}; }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

}  // namespace sotto::test
