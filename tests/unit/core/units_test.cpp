#include "sotto/core/units.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"

namespace sotto {
namespace {

TEST(ParseBytes, DistinguishesBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("8GiB"), int64_t{8} << 30);
  EXPECT_EQ(parse_bytes("12GB"), 12'000'000'000);
  EXPECT_EQ(parse_bytes(" 750 MiB "), int64_t{750} << 20);
  EXPECT_EQ(parse_bytes("1.5KiB"), 1536);
  EXPECT_EQ(parse_bytes("0B"), 0);
}

TEST(ParseBytes, RefusesInvalidSizes) {
  for (const char* text : {"", "8", "GiB", "8gib", "8 GiB GiB", "8G", "-1GiB", "nanGiB", "infB",
                           "1e30GiB", "9999999999TiB", "8GiB4MiB"}) {
    EXPECT_THROW(parse_bytes(text), ConfigError) << text;
  }
}

TEST(FormatBytes, KeepsThreeDigits) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(int64_t{7555} << 20), "7.38 GiB");
  EXPECT_EQ(format_bytes((int64_t{1} << 20) - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(-2048), "-2.00 KiB");
}

TEST(ParseDuration, AddsItsParts) {
  EXPECT_DOUBLE_EQ(parse_duration("90s"), 90);
  EXPECT_DOUBLE_EQ(parse_duration("1h30min"), 5400);
  EXPECT_DOUBLE_EQ(parse_duration("1 h 30 min"), 5400);
  EXPECT_DOUBLE_EQ(parse_duration("250ms"), 0.25);
  for (const char* text : {"", "90", "s", "1x", "-3s", "1h30"}) {
    EXPECT_THROW(parse_duration(text), ConfigError) << text;
  }
}

TEST(FormatDuration, ReadsNaturally) {
  EXPECT_EQ(format_duration(0.0), "0 ms");
  EXPECT_EQ(format_duration(3.1e-4), "0.31 ms");
  EXPECT_EQ(format_duration(0.85), "850 ms");
  EXPECT_EQ(format_duration(12.5), "12.5 s");
  EXPECT_EQ(format_duration(200), "3 min 20 s");
  EXPECT_EQ(format_duration(59.97), "1 min 00 s");
  EXPECT_EQ(format_duration(7500), "2 h 05 min");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600), "3 d 4 h");
}

TEST(FormatDigits, ShowsAtLeastTwoSignificantDigits) {
  for (const auto& [number, text] : {std::pair{0.0, "0"},
                                     {0.0314, "0.031"},
                                     {0.95, "0.95"},
                                     {0.0999, "0.100"},
                                     {4.23, "4.2"},
                                     {9.96, "10"},
                                     {68.4, "68"},
                                     {36'728.1, "36728"},
                                     {-0.5, "-0.50"}})
    EXPECT_EQ(format_digits(number), text);
}

TEST(MemorySize, ReadsWhatItWrites) {
  for (const char* text : {"auto", "8GiB", "750MiB", "90%", "12000001B", "62.5%"}) {
    EXPECT_EQ(MemorySize::parse(text).to_string(), text);
  }
  EXPECT_EQ(MemorySize::parse("90%").share, 0.9);
}

TEST(MemorySize, EveryWholePercentageSurvivesWriting) {
  for (int percent = 1; percent <= 100; ++percent) {
    const std::string text = std::to_string(percent) + "%";
    EXPECT_EQ(MemorySize::parse(text).to_string(), text);
  }
}

TEST(MemorySize, RefusesZeroAndMoreThan100Percent) {
  for (const char* text : {"0GiB", "0%", "101%", "-5%", "%", "8", "automatic", "all"}) {
    EXPECT_THROW(MemorySize::parse(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace sotto
