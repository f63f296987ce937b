#include "sotto/core/processors.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "sotto/core/parallel.h"

namespace sotto {
namespace {

TEST(Processors, AreLimitedByTheControlGroup) {
  EXPECT_EQ(usable_cores(64, std::nullopt), 64);
  EXPECT_EQ(usable_cores(64, 2.0), 2);
  EXPECT_EQ(usable_cores(64, 2.5), 3);
  EXPECT_EQ(usable_cores(64, 0.25), 1);
  EXPECT_EQ(usable_cores(2, 8.0), 2);
}

TEST(Processors, AreAtMostTheScheduledCores) {
  EXPECT_GE(num_threads(), 1);
  EXPECT_LE(num_threads(), count_scheduled_cores());
}

// Each piece waits until the expected number of threads has started.
TEST(Processors, AreAllUsedByAParallelLoop) {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::thread::id> threads;
  parallel_for(2 * num_threads(), [&](int64_t) {
    std::unique_lock lock(mutex);
    threads.insert(std::this_thread::get_id());
    changed.notify_all();
    changed.wait_for(lock, std::chrono::seconds(20),
                     [&] { return std::ssize(threads) >= num_threads(); });
  });
  EXPECT_EQ(std::ssize(threads), num_threads());
}

}  // namespace
}  // namespace sotto
