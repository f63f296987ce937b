// Bytes broken at random, for readers of files that others made.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"

namespace sotto::test {

// Breaks bytes, differently in every round.
class Mutator {
 public:
  explicit Mutator(uint64_t round) : stream_({.seed = 1, .step = round}) {}

  uint64_t below(uint64_t limit) { return stream_.bits(next_++) % std::max<uint64_t>(limit, 1); }

  std::string mutate(std::string bytes) {
    const uint64_t num_changes = 1 + below(4);
    for (uint64_t i = 0; i < num_changes; ++i) change(bytes);
    return bytes;
  }

 private:
  void change(std::string& bytes) {
    if (bytes.empty()) return;
    const size_t at = below(bytes.size());
    switch (below(8)) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
      case 1: bytes[at] = static_cast<char>(below(256)); break;
      case 2: overwrite(bytes, at, number()); break;
      case 3: bytes.insert(at, number()); break;
      case 4: bytes.erase(at, 1 + below(8)); break;
      case 5: bytes.resize(at); break;
      case 6: overwrite(bytes, at, bytes.substr(below(bytes.size()), 1 + below(16))); break;
      default: change_digits(bytes, at);
    }
  }

  static std::string little_endian(uint64_t value) {
    std::string bytes;
    for (unsigned i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xFFU));
    return bytes;
  }

  static void overwrite(std::string& bytes, size_t at, const std::string& with) {
    bytes.replace(at, with.size(), with);
  }

  // One that a reader may stumble over, in 1 to 8 bytes.
  std::string number() {
    const int64_t near = static_cast<int64_t>(below(5)) - 2;
    const uint64_t power = below(64);
    const auto value = (below(2) == 0 ? uint64_t{1} << power : 0) + static_cast<uint64_t>(near);
    return little_endian(value).substr(0, size_t{1} << below(4));
  }

  // The next number in decimal digits becomes another one.
  void change_digits(std::string& bytes, size_t at) {
    const size_t first = bytes.find_first_of("0123456789", at);
    if (first == std::string::npos) return;
    const size_t last = std::min(bytes.find_first_not_of("0123456789", first), bytes.size());
    static const std::vector<std::string> numbers = {
        "0", "1", "-1", "3", "1e3", "4294967296", "9223372036854775807", "18446744073709551616"};
    bytes.replace(first, last - first, numbers[below(numbers.size())]);
  }

  RandomStream stream_;
  uint64_t next_ = 0;
};

inline double seconds_to_run() {
  const char* seconds = std::getenv("SOTTO_FUZZ_SECONDS");
  return seconds == nullptr ? 2 : std::stod(seconds);
}

// Calls `read` again and again until the time is over. Errors must have `name` in them.
inline void run_rounds(const std::function<void(Mutator&)>& read, const std::string& name) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds_to_run());
  int num_read = 0;
  int num_refused = 0;
  for (uint64_t round = 0; Clock::now() < end && !testing::Test::HasFailure(); ++round) {
    Mutator mutator(round);
    try {
      read(mutator);
      ++num_read;
    } catch (const DataError& error) {
      ++num_refused;
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos)
          << "round " << round << ": " << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "round " << round << ": " << error.what();
    }
    if (testing::Test::HasFailure()) ADD_FAILURE() << "in round " << round;
  }
  // Or the changes are too small or too large to find anything.
  EXPECT_GT(num_read, (num_read + num_refused) / 100);
  EXPECT_GT(num_refused, (num_read + num_refused) / 100);
  testing::Test::RecordProperty("rounds", num_read + num_refused);
}

}  // namespace sotto::test
