// Which checkpoints a run with `keep_best` keeps: through other intervals, resuming, changed
// evaluation data, a full disk and a failed evaluation.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

#include "sotto/core/error.h"
#include "sotto/device/run_device.h"
#include "sotto/train/checkpoint/ranking.h"
#include "sotto/train/run/trainer.h"
#include "support/full_disk.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"

namespace sotto::train {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::content_of;

using MetricByStep = std::map<int64_t, double>;

class KeepBest : public ::testing::Test {
 protected:
  KeepBest() {
    config_.data.train = test::write_tiny_corpus(folder_.path(), "train", 48, 1);
    config_.data.dev = test::write_tiny_corpus(folder_.path(), "dev", 12, 2);
    config_.optimizer.schedule.rate = 1e-2;
    config_.epochs = 6;
    config_.keep_checkpoints = 1;
    config_.keep_best = 3;
    config_.evaluate_every = 3;
    config_.checkpoint_every = 1000;
  }

  // Runs to its end, or until something is thrown; returns the metric of each evaluation.
  MetricByStep run(const std::string& name, RunEvents events = {},
                   const std::optional<fs::path>& resume_from = {}) {
    MetricByStep metrics;
    events.evaluated = [&](int64_t step, const Evaluation& evaluation) {
      metrics[step] = evaluation.metric();
    };
    events.warned = [&](const std::string& text) { warnings_ += text + "\n"; };
    Trainer({.config = config_,
             .folder = folder_.path() / name,
             .budget_bytes = int64_t{64} << 20,
             .device = device::open_device("cpu", {}, false),
             .resume_from = resume_from},
            std::move(events))
        .run();
    return metrics;
  }
  std::set<int64_t> kept(const std::string& name) const {
    std::set<int64_t> steps;
    for (const fs::path& path : list_checkpoints(folder_.path() / name)) {
      EXPECT_TRUE(is_whole_checkpoint(path)) << path;
      steps.insert(read_state(path).step);
    }
    return steps;
  }
  fs::path step(const std::string& name, int64_t number) const {
    return checkpoint_path(folder_.path() / name, number);
  }
  // The `count` best steps, the later first where they are equally good, and the last of the run.
  static std::set<int64_t> expected(const MetricByStep& metrics, int64_t count, int64_t last) {
    std::set<std::pair<double, int64_t>> order;
    for (const auto& [step, metric] : metrics) order.emplace(metric, -step);
    std::set<int64_t> steps = {last};
    for (const auto& [metric, negative] : order) {
      if (count-- > 0) steps.insert(-negative);
    }
    return steps;
  }

  test::TempFolder folder_;
  RunConfig config_ = test::tiny_config();
  std::string warnings_;
};

TEST_F(KeepBest, OneIsOnlyInBest) {
  config_.keep_best = 1;
  run("run");
  EXPECT_EQ(kept("run"), std::set<int64_t>{36});
  EXPECT_TRUE(is_whole_checkpoint(folder_.path() / "run/best"));
}

// An evaluation that is among the best is followed by a checkpoint, whatever checkpoint_every is.
TEST_F(KeepBest, ChecksEvaluationsBetweenCheckpoints) {
  const MetricByStep metrics = run("run");
  ASSERT_EQ(metrics.size(), 12u);
  EXPECT_EQ(kept("run"), expected(metrics, 3, 36));
  for (const RankedCheckpoint& checkpoint :
       rank_checkpoints(folder_.path() / "run", read_state(step("run", 36)).dev_fingerprint))
    EXPECT_EQ(checkpoint.metric, metrics.at(checkpoint.step)) << checkpoint.step;
  EXPECT_EQ(read_state(folder_.path() / "run/best").metric,
            rank_checkpoints(folder_.path() / "run", read_state(step("run", 36)).dev_fingerprint)
                .front()
                .metric);
}

// Checkpoints between evaluations have no rank: they are kept only while they are new.
TEST_F(KeepBest, ChecksCheckpointsBetweenEvaluations) {
  config_.checkpoint_every = 2;
  config_.keep_checkpoints = 2;
  config_.max_steps = 35;
  const MetricByStep metrics = run("run");
  std::set<int64_t> steps = expected(metrics, 3, 35);
  steps.insert(34);
  EXPECT_EQ(kept("run"), steps);
  EXPECT_FALSE(read_state(step("run", 34)).metric.has_value());
}

TEST_F(KeepBest, DoesNotDependOnInterruptions) {
  const MetricByStep whole = run("whole");
  for (const int64_t stopped : {7, 9, 20}) {
    RunEvents events;
    int64_t at = 0;
    events.stepped = [&](const StepReport& report) { at = report.step; };
    events.should_stop = [&] { return at == stopped; };
    std::optional<fs::path> from;
    if (fs::exists(folder_.path() / "run")) from = list_checkpoints(folder_.path() / "run").back();
    run("run", events, from);
    // The newest is the one to resume from.
    EXPECT_EQ(*kept("run").rbegin(), stopped);
  }
  run("run", {}, step("run", 20));
  EXPECT_EQ(kept("run"), kept("whole"));
  for (const int64_t number : kept("whole"))
    EXPECT_EQ(content_of(weights_path(step("run", number))),
              content_of(weights_path(step("whole", number))));
}

TEST_F(KeepBest, CanChangeWhenResuming) {
  config_.max_steps = 18;
  const MetricByStep first = run("run");
  EXPECT_EQ(kept("run"), expected(first, 3, 18));
  config_.keep_best = 2;
  config_.max_steps = 19;
  const MetricByStep second = run("run", {}, step("run", 18));
  MetricByStep all = first;
  all.insert(second.begin(), second.end());
  EXPECT_EQ(kept("run"), expected(all, 2, 19));
}

// Evaluations on other data cannot be compared: the best of either stay.
TEST_F(KeepBest, KeepsTheBestOfEachEvaluationData) {
  config_.max_steps = 18;
  const MetricByStep first = run("run");
  config_.data.dev = test::write_tiny_corpus(folder_.path(), "other", 12, 3);
  config_.max_steps = 24;
  const MetricByStep later = run("run", {}, step("run", 18));
  std::set<int64_t> steps = expected(later, 3, 24);
  steps.merge(expected(first, 3, 24));
  EXPECT_EQ(kept("run"), steps);
  EXPECT_TRUE(is_whole_checkpoint(folder_.path() / "run/best.aside"));
}

// Resumed at its end, a run writes its last checkpoint again, without the metric on other data.
TEST_F(KeepBest, MetricOnOtherDataIsNotTakenOver) {
  config_.max_steps = 18;
  run("run");
  ASSERT_TRUE(read_state(step("run", 18)).metric.has_value());
  run("run", {}, step("run", 18));
  EXPECT_TRUE(read_state(step("run", 18)).metric.has_value());
  config_.data.dev = test::write_tiny_corpus(folder_.path(), "other", 12, 3);
  run("run", {}, step("run", 18));
  EXPECT_FALSE(read_state(step("run", 18)).metric.has_value());
}

// Nothing is removed for a checkpoint that could not be written.
TEST_F(KeepBest, FullDiskRemovesNothing) {
  std::optional<test::FullDisk> full;
  std::set<int64_t> before;
  RunEvents events;
  events.stepped = [&](const StepReport& report) {
    if (report.step == 19) {
      before = kept("run");
      full.emplace(size_t{30} << 10);
    }
    if (report.step != 32) return;
    full.reset();
    EXPECT_EQ(kept("run"), before);
  };
  const MetricByStep metrics = run("run", events);
  EXPECT_PRED2(contains, warnings_, "no checkpoint was written; earlier ones, if any, are kept");
  EXPECT_EQ(before.size(), 3u);
  MetricByStep written;
  for (const auto& [number, metric] : metrics) {
    if (number <= 19 || number >= 32) written[number] = metric;
  }
  EXPECT_EQ(kept("run"), expected(written, 3, 36));
}

// The evaluation that failed is done when the run resumes, and its checkpoint gets the metric.
TEST_F(KeepBest, OwedEvaluationIsRanked) {
  const std::string dev = content_of(folder_.path() / "dev.f16");
  RunEvents events;
  events.stepped = [&](const StepReport& report) {
    if (report.step == 9) fs::remove(folder_.path() / "dev.f16");
  };
  EXPECT_ANY_THROW(run("run", events));
  EXPECT_FALSE(read_state(step("run", 9)).metric.has_value());
  folder_.write("dev.f16", dev);
  // The run stops in the following step, before anything else is evaluated.
  RunEvents stopping;
  stopping.should_stop = [] { return true; };
  const MetricByStep owed = run("run", stopping, step("run", 9));
  ASSERT_EQ(owed.size(), 1u);
  EXPECT_EQ(read_state(step("run", 9)).metric, owed.at(9));
}

// Training goes on as if nothing had happened.
TEST_F(KeepBest, RepeatsEvaluationsThatRunOutOfMemory) {
  config_.max_steps = 9;
  const MetricByStep undisturbed = run("whole");
  MetricByStep metrics;
  int64_t num_failures = 0;
  Trainer* trainer = nullptr;
  RunEvents events;
  events.stepped = [&](const StepReport& report) {
    if (report.step == 3 || report.step == 6) trainer->arena().inject_failure(1);
  };
  events.warned = [&](const std::string& text) {
    warnings_ += text + "\n";
    // Repeated unchanged, it runs out once more, and then fits with smaller micro-batches.
    if (contains(text, "ran out of memory") && ++num_failures == 2)
      trainer->arena().inject_failure(1);
  };
  events.evaluated = [&](int64_t step, const Evaluation& evaluation) {
    metrics[step] = evaluation.metric();
  };
  Trainer disturbed({.config = config_,
                     .folder = folder_.path() / "run",
                     .budget_bytes = int64_t{64} << 20,
                     .device = device::open_device("cpu", {}, false)},
                    std::move(events));
  trainer = &disturbed;
  disturbed.run();
  EXPECT_EQ(num_failures, 3);
  EXPECT_PRED2(contains, warnings_, "the evaluation ran out of memory and is repeated with");
  EXPECT_EQ(metrics, undisturbed);
  EXPECT_EQ(content_of(weights_path(step("run", 9))), content_of(weights_path(step("whole", 9))));
}

TEST_F(KeepBest, EndsWithEarlyStopping) {
  config_.optimizer.schedule.rate = 1e-30;
  config_.early_stopping.patience = 2;
  const MetricByStep metrics = run("run");
  EXPECT_EQ(metrics.size(), 3u);
  EXPECT_EQ(kept("run"), (std::set<int64_t>{3, 6, 9}));
}

TEST_F(KeepBest, NeedsEvaluationData) {
  EXPECT_NO_THROW(check_effects(config_));
  config_.data.dev.clear();
  config_.evaluate_every = 0;
  EXPECT_PRED2(contains, test::message_of<ConfigError>([&] { check_effects(config_); }),
               "keep_best without evaluation data, which has no effect");
}

}  // namespace
}  // namespace sotto::train
