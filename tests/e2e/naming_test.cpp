// Where the files of runs and plans go that the user does not name.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

class Naming : public TrainRuns {
 protected:
  // In the folder of the test, where runs/ is made.
  CommandResult sotto(const std::string& words) const {
    return run_command({"bash", "-c",
                        "cd '" + folder_.path().string() + "' && exec '" +
                            std::getenv("SOTTO_BINARY") + "' " + words});
  }
  CommandResult train(const std::string& more) const {
    return sotto("train --model tiny --train train.jsonl --dev dev.jsonl --memory 100MiB " + more);
  }
};

TEST_F(Naming, RunsAreNamedByModelAndNumber) {
  for (const char* number : {"1", "2"}) {
    const CommandResult result = train("--max-steps 2");
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string folder = std::string("runs/tiny-") + number;
    EXPECT_PRED2(contains, result.out, "Files: " + folder + "\n");
    EXPECT_PRED2(contains, content_of(run(folder) / "config.yaml"),
                 std::string("name: tiny-") + number + "\n");
  }
  const std::string first = content_of(run("runs/tiny-1/metrics.jsonl"));
  const CommandResult resumed = train("--resume --max-steps 4");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_PRED2(contains, resumed.err, "resuming runs/tiny-2, the latest run of tiny");
  EXPECT_TRUE(fs::exists(run("runs/tiny-2/checkpoints/step-4")));
  EXPECT_EQ(content_of(run("runs/tiny-1/metrics.jsonl")), first);
  EXPECT_FALSE(fs::exists(run("runs/tiny-3")));
}

TEST_F(Naming, PlansNeverGoIntoAnExistingRun) {
  ASSERT_EQ(train("--max-steps 2").exit_code, 0);
  const std::string words = "plan --model tiny --train train.jsonl --memory 100MiB ";
  const CommandResult result = sotto(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.out,
               "wrote the configuration of the run to runs/tiny-2/plan.yaml\n");
  // A plan replaces a plan, and a run of it goes where it lies.
  EXPECT_PRED2(contains, sotto(words).out, "runs/tiny-2/plan.yaml\n");
  const CommandResult trained = sotto("train --plan runs/tiny-2/plan.yaml --max-steps 2");
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_PRED2(contains, trained.out, "Files: runs/tiny-2\n");
  const std::string plan = content_of(run("runs/tiny-2/plan.yaml"));
  EXPECT_PRED2(contains, sotto(words).out, "runs/tiny-3/plan.yaml\n");
  const CommandResult refused = sotto(words + "--out runs/tiny-2");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(contains, refused.err, "writing a plan into runs/tiny-2: the files of a run");
  // Nor does that of a run with a name.
  ASSERT_EQ(sotto("train --config tiny.yaml --max-steps 2").exit_code, 0);
  EXPECT_PRED2(contains, sotto("plan --config tiny.yaml").out, "runs/tiny-3/plan.yaml\n");
  EXPECT_FALSE(fs::exists(run("runs/tiny/plan.json")));
  EXPECT_EQ(content_of(run("runs/tiny-2/plan.yaml")), plan);
}

}  // namespace
}  // namespace sotto::test
