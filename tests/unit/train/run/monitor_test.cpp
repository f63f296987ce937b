#include "sotto/train/run/monitor.h"

#include <gtest/gtest.h>

#include "support/bytes.h"
#include "support/thrown.h"

namespace sotto::train {
namespace {

using device::MemoryAvailable;
using test::contains;

using test::kMiB;

// A device of 1000 MiB whose use the test sets.
class MonitorTest : public ::testing::Test {
 protected:
  Monitor::Findings step(int64_t used_mib, int64_t peak_bytes = 0) {
    used_mib_ = used_mib;
    ++step_;
    return monitor_.check(
        {.step = step_, .peak_bytes = peak_bytes, .time_s = 2.0 * static_cast<double>(step_)});
  }

  int64_t used_mib_ = 0;
  int64_t num_readings_ = 0;
  int64_t step_ = 0;
  Monitor monitor_{[this] {
                     ++num_readings_;
                     return MemoryAvailable{.total_bytes = 1000 * kMiB,
                                            .free_bytes = (1000 - used_mib_) * kMiB};
                   },
                   /*planned_bytes=*/100'000};
};

TEST_F(MonitorTest, IsSilentIfAllIsAsPlanned) {
  for (const int64_t peak : {0, 99'999, 100'000, 101'000}) {
    const Monitor::Findings findings = step(899, peak);
    EXPECT_TRUE(findings.warnings.empty());
    EXPECT_FALSE(findings.should_release);
  }
}

TEST_F(MonitorTest, WarnsOnceWhileStepsExceedThePlan) {
  const Monitor::Findings above = step(0, 101'001);
  ASSERT_EQ(above.warnings.size(), 1u);
  EXPECT_EQ(above.warnings[0],
            "step 1 took 98.6 KiB of memory, 1.0 % more than the planned 97.7 KiB");
  EXPECT_FALSE(above.should_release);
  EXPECT_TRUE(step(0, 150'000).warnings.empty()) << "it was said";
  EXPECT_TRUE(step(0, 100'000).warnings.empty());
  EXPECT_EQ(step(0, 150'000).warnings.size(), 1u) << "it is so again";
}

TEST_F(MonitorTest, WarnsOnceWhileAbove90Percent) {
  EXPECT_TRUE(step(899).warnings.empty());
  const Monitor::Findings nearly = step(900);
  ASSERT_EQ(nearly.warnings.size(), 1u);
  EXPECT_EQ(nearly.warnings[0],
            "all processes together use 900 MiB of the device's 1000 MiB (90 %)");
  EXPECT_FALSE(nearly.should_release);
  EXPECT_TRUE(step(949).warnings.empty());
  EXPECT_TRUE(step(899).warnings.empty());
  EXPECT_EQ(step(920).warnings.size(), 1u);
}

TEST_F(MonitorTest, ReleasesOnceWhileAbove95Percent) {
  EXPECT_EQ(step(930).warnings.size(), 1u);
  const Monitor::Findings full = step(950);
  EXPECT_TRUE(full.should_release);
  ASSERT_EQ(full.warnings.size(), 1u);
  EXPECT_PRED2(contains, full.warnings[0], "releasing caches");
  const Monitor::Findings still = step(990);
  EXPECT_FALSE(still.should_release);
  EXPECT_TRUE(still.warnings.empty());
  EXPECT_TRUE(step(930).warnings.empty()) << "of 90 % it was said, and it did not fall below";
  EXPECT_TRUE(step(960).should_release);
}

TEST_F(MonitorTest, ReleasesAfterASuddenJump) {
  const Monitor::Findings full = step(1000);
  EXPECT_TRUE(full.should_release);
  EXPECT_EQ(full.warnings.size(), 1u);
}

TEST_F(MonitorTest, QueriesTheDeviceAtMostOncePerSecond) {
  for (int i = 0; i < 100; ++i)
    monitor_.check({.step = i, .peak_bytes = 0, .time_s = 0.05 * static_cast<double>(i)});
  EXPECT_EQ(num_readings_, 5);
}

TEST(Monitor, WorksWithoutDeviceReadings) {
  Monitor monitor([] { return std::optional<MemoryAvailable>(); }, 100);
  const Monitor::Findings findings = monitor.check({.step = 1, .peak_bytes = 200, .time_s = 0.0});
  EXPECT_EQ(findings.warnings.size(), 1u) << "of the plan";
  EXPECT_FALSE(findings.should_release);
}

}  // namespace
}  // namespace sotto::train
