// Memory sizes and durations as people write them. A unit is required: GB is 1e9 bytes, GiB is
// 2^30.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sotto {

// Bytes from "8GiB", "12 GB", "750MiB", "64KiB", "512B". Throws ConfigError for anything else.
int64_t parse_bytes(std::string_view text);

// "7.38 GiB", "512 B": three significant digits, binary units.
std::string format_bytes(int64_t bytes);

// "3842MiB": as few whole ones as hold so many bytes, as options take them.
std::string format_mebibytes(int64_t bytes);

// Seconds from "90s", "15min", "2h", "250ms", "1h30min". Throws ConfigError for anything else.
double parse_duration(std::string_view text);

// "0.31 ms", "850 ms", "12.5 s", "3 min 20 s", "2 h 05 min", "3 d 4 h".
std::string format_duration(double seconds);

// "68", "4.2", "0.031": two significant digits at least, also of what is below 1.
std::string format_digits(double number);

// A budget as the user names it: bytes, a share of what is free, or "auto" (the planner's default
// share).
struct MemorySize {
  enum class Kind { kAuto, kBytes, kShare };

  Kind kind = Kind::kAuto;
  int64_t bytes = 0;   // of kBytes
  double share = 0.0;  // of kShare: 0.9 for "90%"

  // "8GiB", "12GB", "90%", "auto". Zero, a negative number or more than 100 % is a ConfigError.
  static MemorySize parse(std::string_view text);

  // What parse() reads back to the same value.
  std::string to_string() const;

  friend bool operator==(const MemorySize&, const MemorySize&) = default;
};

}  // namespace sotto
