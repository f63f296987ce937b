// Runs on a disk that fails: the best checkpoint that cannot be written, folders that may not be
// written to, checkpoints that come to nothing.
#include "support/faults.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "support/small_disk.h"
#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

class Faults : public TrainRuns {
 protected:
  int64_t step_of_best(const std::string& out) const {
    return nlohmann::json::parse(content_of(run(out) / "best/state.json"))["step"];
  }
};

int64_t times_in(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

const std::string kStays = "the best checkpoint was not written";

// Whichever call fails at the first evaluation, the second one writes the best checkpoint.
TEST_F(Faults, BestCheckpointIsRetried) {
  int number = 0;
  for (const std::string rule :
       {"rename:5:/best:1", "rename:13:/best:1", "write:5:/.best.partial:1",
        "write:28:/.best.partial:3", "fsync:5:/.best.partial:1", "fsync:5:/.best.partial:4",
        "open:5:/.best.partial*/model.safetensors:1", "mkdir:13:/.best.partial:1"}) {
    const std::string out = "run" + std::to_string(++number);
    const CommandResult result = train(out, {}, with_faults(rule));
    ASSERT_EQ(result.exit_code, 0) << rule << result.err;
    EXPECT_EQ(times_in(result.err, kStays), 1) << rule << result.err;
    const auto summary = nlohmann::json::parse(result.out);
    EXPECT_GE(summary["best_step"], 12) << rule;
    EXPECT_EQ(summary["best_step"], step_of_best(out)) << rule;
  }
}

TEST_F(Faults, NoBestIsReportedIfEveryBestCheckpointFails) {
  const CommandResult result = train("run", {}, with_faults("rename:5:/best"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(times_in(result.err, kStays), 3);
  const auto summary = nlohmann::json::parse(result.out);
  EXPECT_EQ(summary["best_step"], 0);
  EXPECT_TRUE(summary["best_wer"].is_null());
  EXPECT_FALSE(fs::exists(run("run") / "best"));
  // A run that goes on does not believe in it either.
  const CommandResult more = train("run", {"--resume", "--max-steps", "20"});
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_EQ(nlohmann::json::parse(more.out)["best_step"], 20);
  EXPECT_EQ(step_of_best("run"), 20);
}

// Whichever evaluation fails, the reported best step is the one on disk.
TEST_F(Faults, PreviousBestIsKeptIfLaterOneFails) {
  const std::vector<std::string> longer = {"--set", "epochs=25", "--set", "checkpoint_every=0"};
  for (const std::string rule : {"rename:5:/best:2-", "fsync:5:/.best.partial:9-"}) {
    const std::string out = rule.substr(0, rule.find(':'));
    const CommandResult result = train(out, longer, with_faults(rule));
    ASSERT_EQ(result.exit_code, 0) << rule << result.err;
    EXPECT_GE(times_in(result.err, kStays), 1) << result.err;
    const auto summary = nlohmann::json::parse(result.out);
    EXPECT_EQ(summary["best_step"], step_of_best(out)) << rule;
    EXPECT_LT(summary["best_step"], 150) << rule;
  }
}

// The folder already has its final name when the sync of its parent fails: the rename is undone.
// Other files also sync the run's folder; one of these numbers hits the first best checkpoint.
TEST_F(Faults, RenameOfBestIsUndoneIfSyncFails) {
  const std::vector<std::string> longer = {"--set", "epochs=25", "--set", "checkpoint_every=0"};
  int64_t num_kept = 0;
  for (const int first : {4, 5, 6, 7}) {
    const std::string out = "run" + std::to_string(first);
    const CommandResult result =
        train(out, longer, with_faults("fsync:5:/" + out + "$:" + std::to_string(first) + "-"));
    ASSERT_EQ(result.exit_code, 0) << first << result.err;
    EXPECT_GE(times_in(result.err, kStays), 1) << result.err;
    const bool is_there = fs::exists(run(out) / "best");
    const auto summary = nlohmann::json::parse(result.out);
    EXPECT_EQ(summary["best_step"], is_there ? step_of_best(out) : 0) << first;
    num_kept += is_there ? 1 : 0;
  }
  // Both ways: a name that was free, and one in place of another.
  EXPECT_GE(num_kept, 1);
  EXPECT_LE(num_kept, 3);
}

TEST_F(Faults, CheckpointErrorsNeitherEndTheRunNorBlameTheDisk) {
  const CommandResult result = train("run", {}, with_faults("mkdir:13:/.step-:1-4"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(times_in(result.err, "no checkpoint was written; earlier ones, if any, are kept"), 4);
  EXPECT_PRED2(contains, result.err, "Permission denied");
  EXPECT_PRED2(contains, result.err, "Change its permissions");
  EXPECT_FALSE(contains(result.err, "free space on that disk"));
  EXPECT_TRUE(fs::exists(run("run") / "checkpoints/step-18"));
}

TEST_F(Faults, FailedMetricsSyncCostsNoCheckpoint) {
  const CommandResult result = train("run", {}, with_faults("fsync:5:/metrics.jsonl"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "the run continues without metrics");
  EXPECT_TRUE(fs::exists(run("run") / "checkpoints/step-18"));
}

// Found before any training, by any user.
TEST_F(Faults, MissingPermissionsAreFoundAtStart) {
  const auto refuses = [&](const std::string& out, const std::string& part,
                           const std::vector<std::string>& environment = {}) {
    const CommandResult result = train(out, {}, environment);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_PRED2(contains, result.err, part);
    EXPECT_PRED2(contains, result.err, "checkpoints");
    EXPECT_FALSE(contains(result.err, "parameters")) << "it has begun: " << result.err;
    EXPECT_FALSE(fs::exists(run(out) / "metrics.jsonl"));
  };
  folder_.write("file/checkpoints", "no folder");
  refuses("file", "Not a directory");
  fs::create_directories(run("denied") / "checkpoints");
  refuses("denied", "Permission denied", with_faults("open:13:/checkpoints/"));

  const SmallDisk disk(run("read-only") / "checkpoints", int64_t{1} << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << SmallDisk::kSkipped;
  ASSERT_EQ(mount("none", (run("read-only") / "checkpoints").c_str(), nullptr,
                  MS_REMOUNT | MS_RDONLY, nullptr),
            0);
  refuses("read-only", "Read-only file system");
}

}  // namespace
}  // namespace sotto::test
