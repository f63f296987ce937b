// Killed twenty times, wherever it happened to be: the weights at the end are those of a run that
// was left alone.
#include <csignal>
#include <thread>

#include "sotto/core/rng.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

using Kills = TrainRuns;

TEST_F(Kills, TwentyLeaveNoTrace) {
  const std::vector<std::string> longer = {
      "--set", "epochs=60", "--set", "checkpoint_every=4", "--set", "evaluate_every=7", "--resume"};
  ASSERT_EQ(train("whole", longer).exit_code, 0);
  constexpr int64_t kSteps = 360;
  constexpr int64_t kKills = 20;
  const RandomStream stream({.seed = 20});
  for (uint64_t kill = 0; kill < kKills; ++kill) {
    // A little farther on each time, then at any moment of the next 40 ms: in a step, in an
    // evaluation or in a save.
    const int64_t lines = static_cast<int64_t>(kill) * (kSteps / kKills) +
                          static_cast<int64_t>(stream.uniform(2 * kill) * 15.0f);
    const std::chrono::duration<double, std::milli> wait(40.0 * stream.uniform(2 * kill + 1));
    const int killed = run_sotto_and_signal(words("killed", longer), SIGKILL, [&] {
      if (num_lines("killed") <= lines) return false;
      std::this_thread::sleep_for(wait);
      return true;
    });
    // The last ones may find it at its end.
    EXPECT_TRUE(killed == -SIGKILL || killed == 0) << killed;
  }
  ASSERT_EQ(train("killed", longer).exit_code, 0);
  EXPECT_EQ(weights("killed", kSteps), weights("whole", kSteps));
}

}  // namespace
}  // namespace sotto::test
