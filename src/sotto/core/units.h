// Memory sizes and durations in human-readable form. A unit is required: GB is 1e9 bytes, GiB is
// 2^30.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sotto {

// Parses bytes from "8GiB", "12 GB", "750MiB", "64KiB", "512B". Throws ConfigError for anything
// else.
int64_t parse_bytes(std::string_view text);

// Formats bytes as "7.38 GiB" or "512 B": three significant digits, binary units.
std::string format_bytes(int64_t bytes);

// Formats bytes as "3842MiB", the form that options take, rounded up to whole MiB.
std::string format_mebibytes(int64_t bytes);

// Parses seconds from "90s", "15min", "2h", "250ms", "1h30min". Throws ConfigError for anything
// else.
double parse_duration(std::string_view text);

// Formats seconds: "0.31 ms", "850 ms", "12.5 s", "3 min 20 s", "2 h 05 min", "3 d 4 h".
std::string format_duration(double seconds);

// Formats a number with at least two significant digits, including numbers below 1: "68", "4.2",
// "0.031".
std::string format_digits(double number);

// A memory budget as the user specifies it: bytes, a fraction of the free memory, or "auto" (the
// planner's default fraction).
struct MemorySize {
  enum class Kind { kAuto, kBytes, kShare };

  Kind kind = Kind::kAuto;
  int64_t bytes = 0;   // for kBytes
  double share = 0.0;  // for kShare: 0.9 means "90%"

  // Parses "8GiB", "12GB", "90%", "auto". Throws ConfigError for zero, negative numbers and more
  // than 100 %.
  static MemorySize parse(std::string_view text);

  // Returns a text that parse() reads back to the same value.
  std::string to_string() const;

  friend bool operator==(const MemorySize&, const MemorySize&) = default;
};

}  // namespace sotto
