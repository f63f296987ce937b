#include "sotto/report/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace sotto::report {
namespace {

std::vector<std::string> labels_of(const Scale& scale) {
  std::vector<std::string> labels;
  for (const Tick& tick : scale.ticks) labels.push_back(tick.label);
  return labels;
}

using Labels = std::vector<std::string>;

TEST(Axis, TicksAreRoundNumbersOfItsUnit) {
  const Scale loss = make_scale({.title = "loss"}, {.least = 0.3, .most = 7.2}, 6);
  EXPECT_EQ(labels_of(loss), (Labels{"0", "2", "4", "6", "8"}));
  EXPECT_EQ(loss.title, "loss");
  const Scale bytes = make_scale({.title = "memory", .unit = Unit::kBytes},
                                 {.least = 0.0, .most = 3.4 * 1024 * 1024 * 1024}, 6);
  EXPECT_EQ(labels_of(bytes), (Labels{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(bytes.title, "memory, GiB");
  const Scale share =
      make_scale({.title = "WER", .unit = Unit::kShare}, {.least = 0.1, .most = 0.47}, 6);
  EXPECT_EQ(labels_of(share), (Labels{"0", "10", "20", "30", "40", "50"}));
  EXPECT_EQ(share.title, "WER, %");
  const Scale seconds =
      make_scale({.title = "time", .unit = Unit::kSeconds}, {.least = 0.0, .most = 0.31}, 4);
  EXPECT_EQ(labels_of(seconds), (Labels{"0", "200", "400"}));
  EXPECT_EQ(seconds.title, "time, ms");
  const Scale rate = make_scale({.title = "rate"}, {.least = 0.0, .most = 3e-4}, 6);
  EXPECT_EQ(labels_of(rate), (Labels{"0", "1", "2", "3"}));
  EXPECT_EQ(rate.title, "rate, ×10⁻⁴");
}

TEST(Axis, StepsAreWholeAndEndAtTheLastOne) {
  const Axis steps{.title = "step", .unit = Unit::kCount, .has_zero = false, .ends_at_tick = false};
  const Scale few = make_scale(steps, {.least = 1.0, .most = 3.0}, 6);
  EXPECT_EQ(labels_of(few), (Labels{"1", "2", "3"}));
  const Scale many = make_scale(steps, {.least = 1.0, .most = 12'000.0}, 7);
  EXPECT_EQ(labels_of(many), (Labels{"2,000", "4,000", "6,000", "8,000", "10,000", "12,000"}));
  EXPECT_EQ(many.first, 1.0);
  EXPECT_EQ(many.last, 12'000.0);
}

TEST(Axis, LogarithmicTicksAreRoundToo) {
  const Axis axis{.title = "perplexity", .is_log = true};
  EXPECT_EQ(labels_of(make_scale(axis, {.least = 10.0, .most = 10'000.0}, 5)),
            (Labels{"10.0", "100", "1,000", "10,000"}));
  const Axis bytes{.unit = Unit::kBytes, .is_log = true};
  const double gib = 1024.0 * 1024 * 1024;
  EXPECT_EQ(labels_of(make_scale(bytes, {.least = 2.0 * gib, .most = 80.0 * gib}, 6)),
            (Labels{"2.00 GiB", "4.00 GiB", "8.00 GiB", "16.0 GiB", "32.0 GiB", "64.0 GiB"}));
  const Scale scale = make_scale(axis, {.least = 10.0, .most = 1000.0}, 5);
  EXPECT_NEAR(scale.position(100.0), 0.5, 1e-9);
}

// Whatever the values, an axis has at least two ticks in order, within its ends, all different.
TEST(Axis, TicksAreUsableForAnyRange) {
  for (const Unit unit :
       {Unit::kNumber, Unit::kCount, Unit::kBytes, Unit::kSeconds, Unit::kShare}) {
    for (int size = 0; size < 27; ++size) {
      const double least = 1e-9 * std::pow(7.3, size);
      for (const double factor : {1.0, 1.02, 1.7, 9.0, 480.0, 3e5}) {
        for (int options = 0; options < 8; ++options) {
          const Axis axis{.unit = unit,
                          .is_log = (options & 1) != 0,
                          .has_zero = (options & 2) != 0,
                          .ends_at_tick = (options & 4) != 0};
          const Scale scale = make_scale(axis, {.least = least, .most = least * factor}, 6);
          ASSERT_GE(scale.last, scale.first);
          ASSERT_LE(scale.ticks.size(), 6u) << least << " " << factor << " " << options;
          const bool is_tiny = unit == Unit::kCount || unit == Unit::kBytes;
          if (!is_tiny || least > 1e4) {
            ASSERT_GE(scale.ticks.size(), factor > 1.5 ? 2u : 1u)
                << static_cast<int>(unit) << " " << least << " " << factor << " " << options;
          }
          for (size_t i = 0; i < scale.ticks.size(); ++i) {
            const double position = scale.position(scale.ticks[i].value);
            ASSERT_GE(position, -1e-6);
            ASSERT_LE(position, 1.0 + 1e-6);
            if (i > 0) {
              ASSERT_GT(scale.ticks[i].value, scale.ticks[i - 1].value);
            }
          }
        }
      }
    }
  }
}

TEST(Axis, OneValueHasAnAxis) {
  const Scale scale = make_scale({.has_zero = false}, {.least = 5.0, .most = 5.0}, 6);
  EXPECT_LT(scale.first, 5.0);
  EXPECT_GT(scale.last, 5.0);
  const Scale zero = make_scale({.unit = Unit::kBytes}, {}, 6);
  EXPECT_GT(zero.last, zero.first);
}

TEST(Axis, ValuesAreWrittenForPeople) {
  EXPECT_EQ(format_value(0.1424, Unit::kShare), "14.2 %");
  EXPECT_EQ(format_value(12'345.0, Unit::kCount), "12,345");
  EXPECT_EQ(format_value(1.4, Unit::kNumber), "1.40");
  EXPECT_EQ(format_value(0.031, Unit::kNumber), "0.0310");
  EXPECT_EQ(format_value(2e-5, Unit::kNumber), "2×10⁻⁵");
  EXPECT_EQ(format_value(1234567.0, Unit::kNumber), "1,234,567");
  EXPECT_EQ(format_value(std::nan(""), Unit::kBytes), "-");
  EXPECT_EQ(format_count(-1234), "-1,234");
  EXPECT_EQ(format_count(999), "999");
}

}  // namespace
}  // namespace sotto::report
