#include "sotto/device/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "sotto/core/error.h"

namespace sotto::device {
namespace {

TEST(Placement, RoundsUpAndCountsUsedBytes) {
  Placement placement(4096);
  EXPECT_EQ(placement.allocate(1), 0);
  EXPECT_EQ(placement.allocate(513), 512);
  EXPECT_EQ(placement.live(), 512 + 1024);
  EXPECT_EQ(placement.high_water(), 1536);
  EXPECT_EQ(placement.free(0), 512);
  EXPECT_EQ(placement.live(), 1024);
  EXPECT_EQ(placement.high_water(), 1536);
}

TEST(Placement, TakesTheSmallestGapThatFits) {
  Placement placement(8192);
  const int64_t large = *placement.allocate(2048);
  placement.allocate(512);
  const int64_t small = *placement.allocate(1024);
  placement.allocate(512);
  placement.free(large);
  placement.free(small);
  EXPECT_EQ(placement.allocate(1024), small);
  EXPECT_EQ(placement.allocate(2048), large);
}

TEST(Placement, JoinsGapsOnBothSides) {
  Placement placement(1536);
  const int64_t a = *placement.allocate(512);
  const int64_t b = *placement.allocate(512);
  const int64_t c = *placement.allocate(512);
  placement.free(a);
  placement.free(c);
  EXPECT_FALSE(placement.allocate(1024).has_value());
  placement.free(b);
  EXPECT_EQ(placement.largest_gap(), 1536);
  EXPECT_EQ(placement.allocate(1536), 0);
}

TEST(Placement, PrefersGapsToTheSpaceAbove) {
  Placement placement(4096);
  const int64_t wide = *placement.allocate(2048);
  placement.allocate(512);
  placement.free(wide);
  EXPECT_EQ(placement.allocate(1536), 0) << "the space above is exactly 1536 bytes, and is kept";
}

TEST(Placement, FreeingAnUnknownBlockIsAnInternalError) {
  Placement placement(1024);
  EXPECT_THROW(placement.free(0), InternalError);
}

// Random operations compared with a plain list of blocks: never overlapping, never outside, all
// space free at the end.
TEST(Placement, NeverOverlapsAndLosesNothing) {
  constexpr int64_t kCapacity = int64_t{1} << 20;
  Placement placement(kCapacity);
  std::map<int64_t, int64_t> blocks;
  std::mt19937 random(7);
  for (int step = 0; step < 20'000; ++step) {
    if (blocks.empty() || random() % 2 == 0) {
      const int64_t bytes = 1 + static_cast<int64_t>(random() % 20'000);
      const auto offset = placement.allocate(bytes);
      if (!offset) continue;
      const int64_t size = Placement::rounded(bytes);
      ASSERT_LE(*offset + size, kCapacity);
      const auto next = blocks.lower_bound(*offset);
      if (next != blocks.end()) {
        ASSERT_LE(*offset + size, next->first);
      }
      if (next != blocks.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, *offset);
      }
      blocks.emplace(*offset, size);
    } else {
      auto victim = std::next(blocks.begin(), static_cast<int64_t>(random() % blocks.size()));
      ASSERT_EQ(placement.free(victim->first), victim->second);
      blocks.erase(victim);
    }
  }
  for (const auto& [offset, size] : blocks) placement.free(offset);
  EXPECT_EQ(placement.live(), 0);
  EXPECT_EQ(placement.largest_gap(), kCapacity);
}

}  // namespace
}  // namespace sotto::device
