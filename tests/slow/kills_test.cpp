// Killed twenty times, wherever it happened to be, in the middle of saves, and with the disk full
// in between: the weights at the end are those of a run that was left alone.
#include <thread>

#include "sotto/core/rng.h"
#include "support/kills.h"
#include "support/small_disk.h"

namespace sotto::test {
namespace {

using Kills = KilledRuns;

constexpr int64_t kSteps = 360;
constexpr int64_t kKills = 20;

const std::vector<std::string> kLonger = {
    "--set", "epochs=60", "--set", "checkpoint_every=4", "--set", "evaluate_every=7", "--resume"};

TEST_F(Kills, TwentyLeaveNoTrace) {
  ASSERT_EQ(train("whole", kLonger).exit_code, 0);
  const RandomStream stream({.seed = 20});
  for (uint64_t kill = 0; kill < kKills; ++kill) {
    // A little farther on each time, then at any moment of the next 40 ms: in a step, in an
    // evaluation or in a save.
    const int64_t lines = static_cast<int64_t>(kill) * (kSteps / kKills) +
                          static_cast<int64_t>(stream.uniform(2 * kill) * 15.0f);
    const std::chrono::duration<double, std::milli> wait(40.0 * stream.uniform(2 * kill + 1));
    const int killed = run_sotto_and_signal(words("killed", kLonger), SIGKILL, [&] {
      if (num_lines("killed") <= lines) return false;
      std::this_thread::sleep_for(wait);
      return true;
    });
    // The last ones may find it at its end.
    EXPECT_TRUE(killed == -SIGKILL || killed == 0) << killed;
  }
  ASSERT_EQ(train("killed", kLonger).exit_code, 0);
  EXPECT_EQ(weights("killed", kSteps), weights("whole", kSteps));
}

TEST_F(Kills, TwentyDuringSavesLeaveNoTrace) {
  ASSERT_EQ(train("whole", kLonger).exit_code, 0);
  int64_t num_killed = 0;
  for (int64_t kill = 0; kill < kKills; ++kill)
    num_killed += kill_in_a_save("killed", kLonger, kill * (kSteps / kKills)) ? 1 : 0;
  RecordProperty("killed_in_a_save", static_cast<int>(num_killed));
  EXPECT_GE(num_killed, kKills / 2);
  ASSERT_EQ(train("killed", kLonger).exit_code, 0);
  EXPECT_EQ(weights("killed", kSteps), weights("whole", kSteps));
}

// Every other time the disk is full: checkpoints fail, and the kill goes back to the last that did
// not.
TEST_F(Kills, TwentyOnASometimesFullDiskLeaveNoTrace) {
  const SmallDisk disk(folder_.path() / "disk", int64_t{4} << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << SmallDisk::kSkipped;
  ASSERT_EQ(train("whole", kLonger).exit_code, 0);
  for (int64_t kill = 0; kill < kKills; ++kill) {
    const int64_t lines = num_lines("disk/killed") + 10;
    const bool is_full = kill % 2 == 1;
    if (is_full) disk.fill(int64_t{60} << 10);
    run_sotto_and_signal(words("disk/killed", kLonger), SIGKILL,
                         [&] { return num_lines("disk/killed") > lines; });
    if (is_full) disk.make_room();
  }
  ASSERT_EQ(train("disk/killed", kLonger).exit_code, 0);
  EXPECT_EQ(weights("disk/killed", kSteps), weights("whole", kSteps));
}

}  // namespace
}  // namespace sotto::test
