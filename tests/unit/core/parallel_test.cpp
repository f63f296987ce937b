#include "sotto/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace sotto {
namespace {

TEST(ParallelFor, RunsEachPieceOnce) {
  for (const int64_t threads : {0, 1, 3, 8}) {
    for (const int64_t count : {0, 1, 2, 1'000}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(count));
      parallel_for(count, [&](int64_t i) { ++done[static_cast<size_t>(i)]; }, threads);
      for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ParallelFor, ThrowsTheFailureOfTheLowestIndex) {
  for (const int64_t threads : {1, 4}) {
    try {
      parallel_for(
          100,
          [](int64_t i) {
            if (i >= 10) throw std::runtime_error(std::to_string(i));
          },
          threads);
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "10");
    }
  }
}

}  // namespace
}  // namespace sotto
