#include "sotto/core/processors.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "sotto/core/parallel.h"

namespace sotto {
namespace {

TEST(Processors, AreThoseThatTheControlGroupPaysFor) {
  EXPECT_EQ(usable_cores(64, std::nullopt), 64);
  EXPECT_EQ(usable_cores(64, 2.0), 2);
  EXPECT_EQ(usable_cores(64, 2.5), 3);
  EXPECT_EQ(usable_cores(64, 0.25), 1);
  EXPECT_EQ(usable_cores(2, 8.0), 2);
}

TEST(Processors, AreNoMoreThanTheSchedulerHas) {
  EXPECT_GE(num_threads(), 1);
  EXPECT_LE(num_threads(), count_scheduled_cores());
}

TEST(Processors, AreTheThreadsOfAParallelLoop) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallel_for(1'000, [&](int64_t) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(std::ssize(threads), num_threads());
}

}  // namespace
}  // namespace sotto
