#include "sotto/train/checkpoint/run_name.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace sotto::train {
namespace {

namespace fs = std::filesystem;
using test::TempFolder;

TEST(RunName, TakesTheNextNumber) {
  const TempFolder folder;
  EXPECT_EQ(next_run_folder(folder.path() / "none", "tiny"), folder.path() / "none/tiny-1");
  folder.write("tiny-1/config.yaml", "");
  folder.write("tiny-9/plan.yaml", "");
  // None of them is a number of tiny.
  for (const char* other :
       {"tiny-12b/x", "tiny-base-30/x", "tiny/x", "tiny-/x", "tiny-040/x", "tiny--7/x"})
    folder.write(other, "");
  EXPECT_EQ(next_run_folder(folder.path(), "tiny"), folder.path() / "tiny-10");
  fs::create_directory(folder.path() / "tiny-10");
  EXPECT_EQ(next_run_folder(folder.path(), "tiny"), folder.path() / "tiny-10");
  EXPECT_EQ(next_run_folder(folder.path(), "tiny-base"), folder.path() / "tiny-base-31");
}

TEST(RunName, PlansReplaceOnlyPlans) {
  const TempFolder folder;
  folder.write("tiny-3/plan.yaml", "");
  folder.write("tiny-3/plan.json", "");
  EXPECT_EQ(next_plan_folder(folder.path(), "tiny"), folder.path() / "tiny-3");
  folder.write("tiny-3/config.yaml", "");
  EXPECT_EQ(next_plan_folder(folder.path(), "tiny"), folder.path() / "tiny-4");
}

TEST(RunName, LatestRunHasACheckpoint) {
  const TempFolder folder;
  EXPECT_EQ(newest_run(folder.path() / "none", "tiny"), std::nullopt);
  folder.write("tiny-8/plan.yaml", "");
  EXPECT_EQ(newest_run(folder.path(), "tiny"), std::nullopt);
  folder.write("tiny-2/config.yaml", "");
  folder.write("tiny-7/config.yaml", "");
  EXPECT_EQ(newest_run(folder.path(), "tiny"), folder.path() / "tiny-7");
  fs::create_directories(folder.path() / "tiny-2/checkpoints/step-5");
  EXPECT_EQ(newest_run(folder.path(), "tiny"), folder.path() / "tiny-2");
  fs::create_directories(folder.path() / "tiny-10/checkpoints/step-1");
  EXPECT_EQ(newest_run(folder.path(), "tiny"), folder.path() / "tiny-10");
}

TEST(RunName, IsTheLastPathComponent) {
  for (const char* path : {"facebook/wav2vec2-base", "/models/wav2vec2-base/", "wav2vec2-base",
                           "x/../wav2vec2-base/."})
    EXPECT_EQ(run_name_from(path), "wav2vec2-base") << path;
  for (const char* path : {"", ".", "..", "/", "a/\xff"}) EXPECT_EQ(run_name_from(path), "run");
}

}  // namespace
}  // namespace sotto::train
