// Checkpoints as a user meets them: damaged ones, a full disk, signals and kills, other numerics,
// weights to begin with, an early end, the mean of several.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "support/full_disk.h"
#include "support/kills.h"
#include "support/small_disk.h"
#include "support/thrown.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

class Checkpoints : public KilledRuns {
 protected:
  fs::path step(const std::string& out, int64_t number) const {
    return run(out) / "checkpoints" / ("step-" + std::to_string(number));
  }

  static void flip_a_bit(const fs::path& file) {
    std::string bytes = content_of(file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    std::ofstream(file, std::ios::binary) << bytes;
  }

  CommandResult eval(const fs::path& checkpoint) const {
    return run_sotto({"eval", "--checkpoint", checkpoint.string(), "--data",
                      (folder_.path() / "dev.jsonl").string(), "--json"});
  }
};

TEST_F(Checkpoints, DamagedOnesAreSkipped) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("run", {"--max-steps", "6"}).exit_code, 0);
  flip_a_bit(step("run", 6) / "model.safetensors");
  fs::remove(step("run", 4) / "vocab.json");
  const CommandResult refused = eval(step("run", 6));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(contains, refused.err, "step-6: model.safetensors is damaged");
  const CommandResult resumed = train("run", {"--resume", "--max-steps", "18"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_PRED2(contains, resumed.err, "step-6 cannot be used");
  EXPECT_PRED2(contains, resumed.err, "step-4: vocab.json is missing");
  EXPECT_PRED2(contains, resumed.err, "from step 3");
  EXPECT_TRUE(fs::exists(run("run") / "checkpoints/step-6.aside"));
  EXPECT_EQ(weights("run", 18), weights("whole", 18));
}

// If no checkpoint is left, the run starts from scratch.
TEST_F(Checkpoints, RunStartsOverIfAllAreDamaged) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("run", {"--max-steps", "2"}).exit_code, 0);
  fs::remove(step("run", 2) / "files.json");
  fs::remove(run("run") / "best/files.json");
  const CommandResult resumed = train("run", {"--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_PRED2(contains, resumed.err, "files.json is missing");
  EXPECT_PRED2(contains, resumed.err, "starting from scratch");
  EXPECT_EQ(weights("run", 18), weights("whole", 18));
}

TEST_F(Checkpoints, AreAlsoWrittenByElapsedTime) {
  const std::vector<std::string> by_steps = {
      "--set", "epochs=20", "--set", "checkpoint_every=1000", "--set", "keep_checkpoints=200"};
  std::vector<std::string> by_time = by_steps;
  by_time.insert(by_time.end(), {"--set", "checkpoint_seconds=20ms"});
  ASSERT_EQ(train("steps", by_steps).exit_code, 0);
  ASSERT_EQ(train("time", by_time).exit_code, 0);
  const auto num_checkpoints = [&](const std::string& out) {
    return std::distance(fs::directory_iterator(run(out) / "checkpoints"),
                         fs::directory_iterator());
  };
  EXPECT_EQ(num_checkpoints("steps"), 1);
  EXPECT_GT(num_checkpoints("time"), 3);
  EXPECT_EQ(weights("time", 120), weights("steps", 120));
}

TEST_F(Checkpoints, ResumeBitExactlyAfterSigterm) {
  const std::vector<std::string> longer = {"--set", "epochs=20", "--set", "checkpoint_every=1000",
                                           "--resume"};
  ASSERT_EQ(train("whole", longer).exit_code, 0);
  EXPECT_EQ(
      run_sotto_and_signal(words("run", longer), SIGTERM, [&] { return num_lines("run") > 20; }),
      0);
  // It was saved where it ended, and nowhere before.
  EXPECT_FALSE(fs::exists(step("run", 120)));
  ASSERT_EQ(train("run", longer).exit_code, 0);
  EXPECT_EQ(weights("run", 120), weights("whole", 120));
}

// Shells and schedulers signal both a process and its group.
TEST_F(Checkpoints, AreWrittenWhenTwoSignalsArriveTogether) {
  const std::vector<std::string> longer = {"--set", "epochs=200", "--set", "checkpoint_every=1000"};
  EXPECT_EQ(run_sotto_and_signal(
                words("run", longer), SIGTERM, [&] { return num_lines("run") > 20; },
                SecondSignal{.signal = SIGINT}),
            0);
  EXPECT_FALSE(fs::is_empty(run("run") / "checkpoints"));
}

TEST_F(Checkpoints, SecondSignalExitsWithoutSaving) {
  const std::vector<std::string> longer = {
      "--set", "epochs=200", "--set", "checkpoint_every=1000", "--set", "effective_batch=48"};
  EXPECT_EQ(run_sotto_and_signal(
                words("run", longer), SIGTERM, [&] { return num_lines("run") > 20; },
                SecondSignal{.signal = SIGINT, .pause = std::chrono::milliseconds(1100)}),
            130);
  EXPECT_FALSE(fs::exists(run("run") / "checkpoints") && !fs::is_empty(run("run") / "checkpoints"));
}

TEST_F(Checkpoints, AreCompleteWhenKilledDuringSave) {
  const std::vector<std::string> longer = {"--set", "epochs=20", "--set", "checkpoint_every=3",
                                           "--resume"};
  ASSERT_EQ(train("whole", longer).exit_code, 0);
  int num_killed = 0;
  for (const int64_t lines : {2, 20, 40, 60, 80})
    num_killed += kill_in_a_save("run", longer, lines) ? 1 : 0;
  EXPECT_GE(num_killed, 3);
  ASSERT_EQ(train("run", longer).exit_code, 0);
  EXPECT_FALSE(has_partial_checkpoint(run("run")));
  EXPECT_EQ(weights("run", 120), weights("whole", 120));
}

// Every file of a run that a second process could change, except those the first one writes.
TEST_F(Checkpoints, AreNotChangedBySecondProcess) {
  const std::vector<std::string> longer = {
      "--set", "epochs=4000", "--set", "checkpoint_every=10", "--set", "keep_checkpoints=1000"};
  CommandResult resumed;
  CommandResult from_an_older;
  CommandResult begun;
  std::string config_before;
  std::string config_after;
  const int first = run_sotto_and_signal(words("run", longer), SIGTERM, [&] {
    if (num_lines("run") < 45) return false;
    config_before = content_of(run("run") / "config.yaml");
    resumed = train("run", {"--resume", "--set", "checkpoint_every=7"});
    from_an_older = train("run", {"--set", "resume_from_checkpoint=" + step("run", 10).string()});
    begun = train("run", {"--set", "epochs=7"});
    config_after = content_of(run("run") / "config.yaml");
    return true;
  });
  EXPECT_EQ(first, 0);
  for (const CommandResult& second : {resumed, from_an_older, begun}) {
    EXPECT_EQ(second.exit_code, 2) << second.err;
    EXPECT_PRED2(contains, second.err, "a run is in progress there: process ");
  }
  EXPECT_EQ(config_before, config_after);
  for (const auto& entry : fs::directory_iterator(run("run") / "checkpoints"))
    EXPECT_FALSE(contains(entry.path().string(), "aside")) << entry.path();
  EXPECT_TRUE(fs::exists(step("run", 40)));
  EXPECT_FALSE(fs::exists(run("run") / ".lock"));
}

TEST_F(Checkpoints, RunResumesFromSetAsideFolders) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("run", {"--max-steps", "6"}).exit_code, 0);
  for (const int64_t number : {2, 4, 6})
    fs::rename(step("run", number), step("run", number).string() + ".aside");
  flip_a_bit(step("run", 6).string() + ".aside/model.safetensors");
  EXPECT_EQ(train("run").exit_code, 2) << "it is no folder without a run";
  const CommandResult resumed = train("run", {"--resume", "--max-steps", "18"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_PRED2(contains, resumed.err, "step-6.aside cannot be used");
  EXPECT_PRED2(contains, resumed.err, "from step 5");
  EXPECT_EQ(weights("run", 18), weights("whole", 18));
}

// A file size limit of the process simulates the disk: only weight files do not fit.
TEST_F(Checkpoints, FullDiskDoesNotEndTheRun) {
  CommandResult result;
  {
    const FullDisk full(size_t{30} << 10);
    result = train("run");
  }
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_PRED2(contains, result.err, "no checkpoint was written; earlier ones, if any, are kept");
  EXPECT_PRED2(contains, result.err, "the best checkpoint was not written");
  // The last one is the run's result, and an error.
  EXPECT_PRED2(contains, result.err, "sotto: writing ");
  EXPECT_EQ(num_lines("run"), 1 + 18 + 3);
  EXPECT_FALSE(has_partial_checkpoint(run("run")));
  EXPECT_TRUE(fs::is_empty(run("run") / "checkpoints"));
}

// Full, then too full for a single line, then free again: the result is the same as without faults.
TEST_F(Checkpoints, AreWrittenAgainOnceTheDiskHasRoom) {
  const SmallDisk disk(folder_.path() / "disk", int64_t{4} << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << SmallDisk::kSkipped;
  const std::vector<std::string> longer = {"--set", "epochs=60", "--set", "checkpoint_every=2"};
  ASSERT_EQ(train("whole", longer).exit_code, 0);
  std::thread filling([&] {
    // Not for ever: a run that died writes no more.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    const auto wait_for = [&](int64_t lines) {
      while (num_lines("disk/run") < lines && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    wait_for(10);
    disk.fill(int64_t{40} << 10);
    wait_for(40);
    // A save that fails gives its room back, so it is taken again and again until no line was
    // written for a while.
    int64_t lines = 0;
    for (int unchanged = 0; unchanged < 200; ++unchanged) {
      disk.fill(0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (const int64_t now = num_lines("disk/run"); std::exchange(lines, now) != now)
        unchanged = 0;
    }
    disk.make_room();
  });
  const CommandResult result = train("disk/run", longer);
  filling.join();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "no checkpoint was written; earlier ones, if any, are kept");
  EXPECT_PRED2(contains, result.err, "No space left on device");
  EXPECT_PRED2(contains, result.err, "the run continues without metrics");
  EXPECT_EQ(weights("disk/run", 360), weights("whole", 360));
}

TEST_F(Checkpoints, AreCompleteWhenKilledOnFullDisk) {
  const SmallDisk disk(folder_.path() / "disk", int64_t{4} << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << SmallDisk::kSkipped;
  const std::vector<std::string> longer = {"--set", "epochs=20", "--set", "checkpoint_every=3",
                                           "--resume"};
  ASSERT_EQ(train("whole", longer).exit_code, 0);
  kill_in_a_save("disk/run", longer, 10);
  for (const int64_t lines : {20, 40}) {
    disk.fill(int64_t{60} << 10);
    run_sotto_and_signal(words("disk/run", longer), SIGKILL,
                         [&] { return num_lines("disk/run") > lines; });
    disk.make_room();
  }
  ASSERT_EQ(train("disk/run", longer).exit_code, 0);
  EXPECT_EQ(weights("disk/run", 120), weights("whole", 120));
}

// fp32, then only a save in bf16, then fp32 again: no bit is lost.
TEST_F(Checkpoints, ResumeBitExactlyInOtherNumerics) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("run", {"--max-steps", "6"}).exit_code, 0);
  const std::string fp32 = weights("run", 6);
  const CommandResult there =
      train("run", {"--resume", "--max-steps", "6", "--set", "numerics=bf16-exact", "--set",
                    "precision.small_below=1"});
  ASSERT_EQ(there.exit_code, 0) << there.err;
  EXPECT_PRED2(contains, there.err, "numerics changed from fp32 to bf16-exact");
  EXPECT_NE(weights("run", 6), fp32);
  const CommandResult lean =
      train("run", {"--resume", "--set", "numerics=bf16-lean", "--set", "precision.small_below=1"});
  EXPECT_EQ(lean.exit_code, 2);
  EXPECT_PRED2(contains, lean.err, "8-bit moments cannot hold those in fp32");
  EXPECT_PRED2(contains, lean.err, "--init-from");
  const CommandResult back =
      train("run", {"--resume", "--set", "numerics=fp32", "--max-steps", "18"});
  ASSERT_EQ(back.exit_code, 0) << back.err;
  EXPECT_EQ(weights("run", 18), weights("whole", 18));
}

// fp16 starts with its own loss scale: with that of fp32, 1, small gradients would underflow.
TEST_F(Checkpoints, Fp32LossScaleIsNotUsedForFp16) {
  ASSERT_EQ(train("run", {"--max-steps", "4"}).exit_code, 0);
  ASSERT_EQ(train("run", {"--resume", "--max-steps", "6", "--set", "numerics=fp16"}).exit_code, 0);
  const auto state = nlohmann::json::parse(content_of(step("run", 6) / "state.json"));
  EXPECT_GE(state["loss_scale"], 16'384.0);
}

TEST_F(Checkpoints, InitializeAnotherRun) {
  ASSERT_EQ(train("source", {"--set", "epochs=10"}).exit_code, 0);
  // Its network and its best weights, without a configuration.
  const std::string base = folder_.path().string();
  const CommandResult begun = run_sotto(
      {"train", "--init-from", run("source").string(), "--train", base + "/train.jsonl", "--dev",
       base + "/dev.jsonl", "--memory", "100MiB", "--out", run("begun").string(), "--set",
       "optimizer.schedule.kind=constant", "--set", "optimizer.schedule.rate=1e-30", "--set",
       "effective_batch=8", "--max-steps", "1"});
  ASSERT_EQ(begun.exit_code, 0) << begun.err;
  EXPECT_EQ(weights("begun", 1), content_of(run("source") / "best/model.safetensors"));
  const CommandResult deeper = train("deeper", {"--init-from", run("source").string(), "--set",
                                                "model.layers=3", "--max-steps", "1"});
  ASSERT_EQ(deeper.exit_code, 0) << deeper.err;
  EXPECT_PRED2(contains, deeper.err, "tensors are new: layers.2.");
  const CommandResult none = train("none", {"--init-from", "no/such/thing"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_PRED2(contains, none.err, "no/such/thing");
  flip_a_bit(run("source") / "best/model.safetensors");
  const CommandResult damaged = train("damaged", {"--init-from", run("source").string()});
  EXPECT_EQ(damaged.exit_code, 2);
  EXPECT_PRED2(contains, damaged.err, "best: model.safetensors is damaged");
}

TEST_F(Checkpoints, StoreEarlyStoppingState) {
  // Nothing is learned: the first evaluation stays the best.
  std::vector<std::string> early = {"--set",   "optimizer.schedule.rate=1e-30",
                                    "--set",   "evaluate_every=2",
                                    "--set",   "early_stopping=3",
                                    "--resume"};
  const CommandResult whole = train("whole", early);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const auto summary = nlohmann::json::parse(whole.out);
  EXPECT_EQ(summary["steps"], 8);
  EXPECT_EQ(summary["ended_early"], true);
  EXPECT_EQ(summary["best_step"], 2);
  // Cut behind the second evaluation, it ends at the same step.
  std::vector<std::string> cut = early;
  cut.insert(cut.end(), {"--max-steps", "4"});
  EXPECT_EQ(nlohmann::json::parse(train("parts", cut).out)["ended_early"], false);
  early.insert(early.end(), {"--max-steps", "18"});
  EXPECT_EQ(nlohmann::json::parse(train("parts", early).out)["steps"], 8);
  EXPECT_EQ(weights("parts", 8), weights("whole", 8));
  // Taken up once more it is over already; with more patience it goes on.
  EXPECT_EQ(nlohmann::json::parse(train("parts", early).out)["steps"], 8);
  early.insert(early.end(), {"--set", "early_stopping=4"});
  EXPECT_EQ(nlohmann::json::parse(train("parts", early).out)["steps"], 10);
  const CommandResult blind =
      run_sotto({"train", "--model", "tiny", "--train", (folder_.path() / "train.jsonl").string(),
                 "--out", run("blind").string(), "--set", "early_stopping=1"});
  EXPECT_EQ(blind.exit_code, 2);
  EXPECT_PRED2(contains, blind.err, "early_stopping without evaluation data");
}

TEST_F(Checkpoints, AverageIsACheckpointToo) {
  ASSERT_EQ(train("run", {"--set", "epochs=10"}).exit_code, 0);
  const std::string mean = (folder_.path() / "mean").string();
  const CommandResult averaged =
      run_sotto({"average", run("run").string(), "--last", "3", "--out", mean});
  ASSERT_EQ(averaged.exit_code, 0) << averaged.err;
  EXPECT_PRED2(contains, averaged.out, "step-60");
  EXPECT_PRED2(contains, averaged.out, "the average of 3 checkpoints");
  const CommandResult evaluated = eval(mean);
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_LT(nlohmann::json::parse(evaluated.out)["wer"]["rate"], 1.0);
  ASSERT_EQ(train("begun", {"--init-from", mean, "--max-steps", "1"}).exit_code, 0);
  const std::string named = (folder_.path() / "named").string();
  ASSERT_EQ(run_sotto({"average", step("run", 56).string(), step("run", 58).string(),
                       step("run", 60).string(), "--out", named})
                .exit_code,
            0);
  EXPECT_EQ(content_of(fs::path(named) / "model.safetensors"),
            content_of(fs::path(mean) / "model.safetensors"));
  for (const auto& more : std::vector<std::vector<std::string>>{
           {run("run").string()},
           {run("run").string(), "--last", "9"},
           {step("run", 58).string(), step("run", 60).string(), "--last", "2"}}) {
    std::vector<std::string> all = {"average", "--out", named};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(run_sotto(all).exit_code, 2);
  }
}

TEST_F(Checkpoints, AverageOfTheBest) {
  ASSERT_EQ(train("run", {"--set", "epochs=10", "--set", "keep_best=3"}).exit_code, 0);
  std::vector<std::pair<double, int64_t>> order;
  for (const auto& entry : fs::directory_iterator(run("run") / "checkpoints")) {
    const auto state = nlohmann::json::parse(content_of(entry.path() / "state.json"));
    if (state.contains("metric")) order.emplace_back(state["metric"], -state["step"].get<int>());
  }
  ASSERT_GE(order.size(), 3u);
  std::ranges::sort(order);
  std::vector<std::string> named = {"average", "--out", run("named").string()};
  std::set<int64_t> steps = {-order[0].second, -order[1].second, -order[2].second};
  for (const int64_t number : steps) named.push_back(step("run", number).string());
  ASSERT_EQ(run_sotto(named).exit_code, 0);
  const CommandResult averaged =
      run_sotto({"average", run("run").string(), "--best", "3", "--out", run("mean").string()});
  ASSERT_EQ(averaged.exit_code, 0) << averaged.err;
  EXPECT_PRED2(contains, averaged.out, "the average of 3 checkpoints");
  EXPECT_EQ(content_of(run("mean") / "model.safetensors"),
            content_of(run("named") / "model.safetensors"));
  const CommandResult too_many =
      run_sotto({"average", run("run").string(), "--best", "99", "--out", run("x").string()});
  EXPECT_EQ(too_many.exit_code, 2);
  EXPECT_PRED2(contains, too_many.err, "keep_best sets how many a run keeps");
  for (const auto& more : std::vector<std::vector<std::string>>{
           {run("run").string(), "--best", "2", "--last", "2"},
           {step("run", 60).string(), step("run", 58).string(), "--best", "2"}}) {
    std::vector<std::string> all = {"average", "--out", run("x").string()};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(run_sotto(all).exit_code, 2);
  }
}

}  // namespace
}  // namespace sotto::test
