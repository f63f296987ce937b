#include "sotto/device/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "sotto/core/error.h"

namespace sotto::device {
namespace {

constexpr int64_t kKiB = 1024;

int64_t bytes_of(const CategoryBytes& bytes, Category category) {
  return bytes[static_cast<size_t>(category)];
}

TEST(Arena, CountsByCategoryAndRecordsItsPeak) {
  Arena arena(RegionKind::kNothing, Arena::kUnlimited);
  {
    const CategoryScope category(Category::kWeights);
    arena.allocate(4 * kKiB);
  }
  void* activation = nullptr;
  {
    const MomentScope moment({.phase = Phase::kBackward, .micro_batch = 2, .layer = 7});
    activation = arena.allocate(3 * kKiB);
    const CategoryScope category(Category::kWorkspace);
    void* workspace = arena.allocate(100);
    EXPECT_TRUE(arena.free(workspace));
  }
  EXPECT_TRUE(arena.free(activation));
  arena.allocate(1 * kKiB);

  const MemoryReport report = arena.report();
  EXPECT_EQ(report.peak, 7 * kKiB + 512);
  EXPECT_EQ(report.live, 5 * kKiB);
  EXPECT_EQ(bytes_of(report.at_peak, Category::kWeights), 4 * kKiB);
  EXPECT_EQ(bytes_of(report.at_peak, Category::kActivations), 3 * kKiB);
  EXPECT_EQ(bytes_of(report.at_peak, Category::kWorkspace), 512);
  EXPECT_EQ(bytes_of(report.live_by_category, Category::kWorkspace), 0);
  EXPECT_EQ(report.peak_moment.to_string(), "backward of layer 7, micro-batch 2");
  EXPECT_EQ(report.num_reservations, 4);
}

TEST(Arena, LimitIsHardAndItsErrorIsDetailed) {
  Arena arena(RegionKind::kHost, 8 * kKiB);
  void* first = arena.allocate(5 * kKiB);
  try {
    arena.allocate(4 * kKiB);
    FAIL() << "the limit did not hold";
  } catch (const OutOfMemory& error) {
    const std::string text = error.what();
    for (const char* part :
         {"4.00 KiB", "activations", "8.00 KiB", "5.00 KiB", "3.00 KiB", "--memory"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
    }
  }
  // It goes on: what is free can be had, and what was refused left no trace.
  EXPECT_EQ(arena.report().live, 5 * kKiB);
  void* second = arena.allocate(3 * kKiB);
  std::memset(second, 1, 3 * kKiB);
  EXPECT_TRUE(arena.free(first));
  EXPECT_NO_THROW(arena.allocate(4 * kKiB));
}

TEST(Arena, InjectedFailureStrikesOnceAtTheNthReservation) {
  Arena arena(RegionKind::kNothing, Arena::kUnlimited);
  arena.allocate(1);
  arena.inject_failure(2);
  EXPECT_NO_THROW(arena.allocate(1));
  EXPECT_THROW(arena.allocate(1), OutOfMemory);
  EXPECT_NO_THROW(arena.allocate(1));
  arena.inject_failure(1);
  EXPECT_THROW(arena.begin_library_call("product", 512), OutOfMemory);
  EXPECT_NO_THROW(arena.begin_library_call("product", 512));
  arena.end_library_call();
}

TEST(Arena, DoesNotFreeForeignAddresses) {
  Arena arena(RegionKind::kHost, kKiB);
  int elsewhere = 0;
  EXPECT_FALSE(arena.free(&elsewhere));
}

TEST(Arena, LibraryCallStaysWithinItsReservation) {
  Arena arena(RegionKind::kHost, 8 * kKiB);
  arena.begin_library_call("product", 4 * kKiB);
  EXPECT_EQ(arena.report().live, 4 * kKiB);
  void* a = arena.allocate(1 * kKiB);
  void* b = arena.allocate(2 * kKiB);
  std::memset(a, 1, 1 * kKiB);
  std::memset(b, 2, 2 * kKiB);
  EXPECT_EQ(arena.report().live, 4 * kKiB)
      << "what lies inside the reservation is not counted twice";
  arena.free(a);
  arena.free(b);
  arena.end_library_call();

  const MemoryReport report = arena.report();
  EXPECT_EQ(report.live, 0);
  EXPECT_EQ(report.peak, 4 * kKiB);
  ASSERT_EQ(report.library_calls.size(), 1u);
  EXPECT_EQ(report.library_calls[0].declared_bytes, 4 * kKiB);
  EXPECT_EQ(report.library_calls[0].measured_bytes, 3 * kKiB);
  EXPECT_EQ(report.library_calls[0].num_breaches, 0);
}

TEST(Arena, LibraryCallBeyondItsBoundIsServedAndReported) {
  Arena arena(RegionKind::kHost, 2 * kKiB);
  arena.begin_library_call("product", 1 * kKiB);
  void* large = arena.allocate(16 * kKiB);
  std::memset(large, 1, 16 * kKiB);
  arena.free(large);
  arena.end_library_call();
  const MemoryReport report = arena.report();
  ASSERT_EQ(report.library_calls.size(), 1u);
  EXPECT_EQ(report.library_calls[0].measured_bytes, 16 * kKiB);
  EXPECT_EQ(report.library_calls[0].num_breaches, 1);
  EXPECT_EQ(report.live, 0);
}

TEST(Arena, LibraryCallKeepsItsReservationWhileItsBlocksLive) {
  Arena arena(RegionKind::kHost, 4 * kKiB);
  arena.begin_library_call("cache", 2 * kKiB);
  void* kept = arena.allocate(512);
  arena.end_library_call();
  EXPECT_EQ(arena.report().live, 2 * kKiB);
  EXPECT_EQ(arena.report().library_calls[0].num_breaches, 1);
  std::memset(kept, 1, 512);
  arena.free(kept);
  EXPECT_EQ(arena.report().live, 0);
}

TEST(Arena, LibraryCallReportsTheLargestUse) {
  Arena arena(RegionKind::kNothing, Arena::kUnlimited);
  for (const int64_t used : {1, 3, 2}) {
    arena.begin_library_call("product", 4 * kKiB);
    arena.free(arena.allocate(used * kKiB));
    arena.end_library_call();
  }
  const LibraryUse use = arena.report().library_calls.at(0);
  EXPECT_EQ(use.num_calls, 3);
  EXPECT_EQ(use.measured_bytes, 3 * kKiB);
}

// The prediction relies on this: a history is placed equally at every sufficient capacity, and its
// high-water mark is a sufficient capacity.
TEST(Arena, DryAndRealRunsPlaceEqually) {
  const auto run = [](Arena& arena) {
    std::mt19937 random(3);
    std::vector<void*> alive;
    for (int step = 0; step < 3'000; ++step) {
      if (alive.size() < 5 || random() % 100 < 52) {
        alive.push_back(arena.allocate(1 + static_cast<int64_t>(random() % 9'000)));
      } else {
        const size_t victim = random() % alive.size();
        arena.free(alive[victim]);
        alive.erase(alive.begin() + static_cast<int64_t>(victim));
      }
    }
  };
  Arena dry(RegionKind::kNothing, Arena::kUnlimited);
  run(dry);
  const int64_t needed = dry.report().high_water;
  EXPECT_GE(needed, dry.report().peak);

  Arena real(RegionKind::kHost, needed);
  run(real);
  EXPECT_EQ(real.report().peak, dry.report().peak);
  EXPECT_EQ(real.report().high_water, needed);

  Arena too_short(RegionKind::kHost, needed - Placement::kAlignment);
  EXPECT_THROW(run(too_short), OutOfMemory);
}

// The result of a library call is a block like any other, placed before its reservation, just as if
// we had allocated it, which is what the dry run does.
TEST(Arena, LibraryResultsArePlacedBeforeTheirCall) {
  Arena ours(RegionKind::kNothing, Arena::kUnlimited);
  void* y = ours.allocate(3000);
  void* statistics = ours.allocate(700);
  ours.begin_library_call("attention", 4 * kKiB);
  ours.end_library_call();

  Arena theirs(RegionKind::kNothing, Arena::kUnlimited);
  const std::vector<int64_t> results = {3000, 700};
  theirs.begin_library_call("attention", 4 * kKiB, results);
  void* temporary = theirs.allocate(1000);
  void* their_statistics = theirs.allocate(700);
  void* their_y = theirs.allocate(3000);
  theirs.free(temporary);
  theirs.end_library_call();

  EXPECT_EQ(theirs.report().live, ours.report().live);
  EXPECT_EQ(theirs.report().high_water, ours.report().high_water);
  EXPECT_EQ(theirs.report().at_peak, ours.report().at_peak);
  EXPECT_EQ(theirs.report().num_reservations, ours.report().num_reservations);
  EXPECT_EQ(theirs.report().library_calls.at(0).num_breaches, 0);
  EXPECT_EQ(theirs.report().library_calls.at(0).measured_bytes, 1024);
  EXPECT_EQ(static_cast<char*>(their_statistics) - static_cast<char*>(their_y),
            static_cast<char*>(statistics) - static_cast<char*>(y));
  EXPECT_TRUE(theirs.free(their_y));
  EXPECT_TRUE(theirs.free(their_statistics));
  EXPECT_EQ(theirs.report().live, 0);
}

TEST(Arena, UnclaimedLibraryResultIsABreach) {
  Arena arena(RegionKind::kNothing, Arena::kUnlimited);
  const std::vector<int64_t> results = {3000};
  arena.begin_library_call("attention", 0, results);
  arena.end_library_call();
  EXPECT_EQ(arena.report().library_calls.at(0).num_breaches, 1);
  EXPECT_EQ(arena.report().live, 0);
}

TEST(Arena, LibraryCallThatDoesNotFitLeavesNothingBehind) {
  const std::vector<int64_t> results = {2 * kKiB, 4 * kKiB};
  for (const int64_t capacity : {kKiB, 4 * kKiB, 8 * kKiB}) {
    Arena arena(RegionKind::kHost, capacity);
    EXPECT_THROW(arena.begin_library_call("attention", 4 * kKiB, results), OutOfMemory);
    EXPECT_EQ(arena.report().live, 0) << capacity;
    arena.begin_library_call("attention", kKiB);
    arena.end_library_call();
  }
}

TEST(Arena, ResetStartsANewHistory) {
  Arena arena(RegionKind::kNothing, Arena::kUnlimited);
  void* early = arena.allocate(64 * kKiB);
  void* kept = arena.allocate(kKiB);
  arena.free(early);
  arena.reset_peak();
  EXPECT_EQ(arena.report().peak, kKiB);
  EXPECT_EQ(arena.report().high_water, 65 * kKiB) << "the block alive lies there";
  arena.free(kept);
  arena.reset_peak();
  EXPECT_EQ(arena.report().high_water, 0);
}

TEST(Arena, CanBeSharedByThreads) {
  Arena arena(RegionKind::kHost, 4 << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&arena, t] {
      for (int i = 0; i < 500; ++i) {
        const int64_t bytes = 1 + (i * 37 + t) % 4'000;
        void* block = arena.allocate(bytes);
        std::memset(block, t, static_cast<size_t>(bytes));
        arena.free(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.report().live, 0);
  EXPECT_EQ(arena.report().num_reservations, 2'000);
}

}  // namespace
}  // namespace sotto::device
