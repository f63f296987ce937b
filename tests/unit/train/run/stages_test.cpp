// Runs in stages: their steps and samples, the weights that are carried on, and interruptions
// around the step from one stage to the next.
#include "sotto/train/step/stages.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>

#include "sotto/core/error.h"
#include "sotto/core/files/run_record.h"
#include "sotto/device/run_device.h"
#include "sotto/models/files/tensor_file.h"
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
using test::message_of;

StageOptions stage_of(const char* samples, int64_t epochs, int64_t steps = 0) {
  StageOptions stage{
      .samples = StageSize::parse(samples), .epochs = epochs, .steps = steps, .schedule = {}};
  stage.schedule.kind = optim::ScheduleKind::kLinear;
  stage.schedule.rate = 1e-2;
  stage.schedule.warmup_steps = 2;
  return stage;
}

class StagedRuns : public ::testing::Test {
 protected:
  StagedRuns() {
    config_.data.train = test::write_tiny_corpus(folder_.path(), "train", 48, 1);
    config_.data.dev = test::write_tiny_corpus(folder_.path(), "dev", 12, 2);
    config_.epochs = RunConfig().epochs;
    config_.keep_checkpoints = 1;
    config_.evaluate_every = 2;
    // Steps 1 to 6, 7 to 11 and 12 to 17; in the second, one epoch and two thirds of 3 steps.
    config_.stages = {stage_of("12", 3), stage_of("50%", 0, 5), stage_of("all", 1)};
  }

  // Runs to its end, or until something is thrown.
  RunSummary run(const std::string& name, RunEvents events = {},
                 const std::optional<fs::path>& resume_from = {}) {
    const auto chained = [](auto& event, auto own) {
      event = [own, theirs = event](const auto&... arguments) {
        own(arguments...);
        notify(theirs, arguments...);
      };
    };
    chained(events.staged, [&](const StageStart& start) { starts_[start.stage] = start; });
    chained(events.stepped, [&](const StepReport& report) { reports_[report.step] = report; });
    chained(events.evaluated, [&](int64_t step, const Evaluation& evaluation) {
      metrics_[step] = evaluation.metric();
    });
    chained(events.warned, [&](const std::string& text) { warnings_ += text + "\n"; });
    chained(events.noted, [&](const std::string& text) { warnings_ += text + "\n"; });
    Trainer trainer({.config = config_,
                     .folder = at(name),
                     .budget_bytes = int64_t{64} << 20,
                     .device = device::open_device("cpu", {}, false),
                     .resume_from = resume_from},
                    std::move(events));
    trainer_ = &trainer;
    return trainer.run();
  }
  RunSummary resume(const std::string& name, RunEvents events = {}) {
    const std::vector<fs::path> all = list_checkpoints(at(name));
    if (all.empty()) return run(name, std::move(events));
    return run(name, std::move(events), all.back());
  }

  fs::path at(const std::string& name) const { return folder_.path() / name; }
  fs::path step(const std::string& name, int64_t number) const {
    return checkpoint_path(at(name), number);
  }
  std::string tensors(const std::string& name, int64_t number) const {
    return content_of(weights_path(step(name, number))) +
           content_of(optimizer_path(step(name, number)));
  }
  // The weights and the optimizer's state of the run as it is now.
  std::string tensors_now() {
    const fs::path file = folder_.path() / "now.safetensors";
    models::write_tensors(file, trainer_->learner().model->named_weights());
    std::string content = content_of(file);
    models::write_tensors(file, tensors_of(trainer_->learner().optimizer));
    return content + content_of(file);
  }
  std::vector<std::string> record_of(const std::string& name) const {
    std::vector<std::string> lines;
    for (nlohmann::json line : read_run_record(at(name) / "metrics.jsonl").records) {
      if (line["kind"] == "resume") continue;
      lines.push_back(line["kind"].dump() + line["step"].dump() +
                      line.value("loss", nlohmann::json()).dump());
    }
    return lines;
  }
  static RunEvents stopping_at(int64_t number, int64_t* at) {
    RunEvents events;
    events.stepped = [at](const StepReport& report) { *at = report.step; };
    events.should_stop = [at, number] { return *at == number; };
    return events;
  }
  // A stage whose rate rises until the network forgets what it had learned: an earlier evaluation
  // is the best one.
  static StageOptions forgetting_stage() {
    StageOptions stage = stage_of("50%", 0, 60);
    stage.schedule.kind = optim::ScheduleKind::kConstant;
    stage.schedule.rate = 0.5;
    stage.schedule.warmup_steps = 60;
    return stage;
  }

  test::TempFolder folder_;
  RunConfig config_ = test::tiny_config();
  std::map<int64_t, StageStart> starts_;
  std::map<int64_t, StepReport> reports_;
  std::map<int64_t, double> metrics_;
  std::string warnings_;
  Trainer* trainer_ = nullptr;
};

TEST_F(StagedRuns, EachHasItsStepsAndAnEvaluationAtItsEnd) {
  config_.evaluate_every = 1000;
  const RunSummary summary = run("run");
  EXPECT_EQ(summary.steps, 17);
  EXPECT_FALSE(summary.ended_early);
  ASSERT_EQ(starts_.size(), 3u);
  EXPECT_EQ(starts_[0].first_step, 1);
  EXPECT_EQ(starts_[0].num_samples, 12);
  EXPECT_EQ(starts_[0].weights_of_step, 0);
  EXPECT_EQ(starts_[1].first_step, 7);
  EXPECT_EQ(starts_[1].num_samples, 24);
  EXPECT_EQ(starts_[1].name, "50%");
  EXPECT_EQ(starts_[2].first_step, 12);
  EXPECT_EQ(starts_[2].num_steps, 6);
  EXPECT_EQ(starts_[2].total_steps, 17);
  std::vector<int64_t> evaluated;
  for (const auto& [step, metric] : metrics_) evaluated.push_back(step);
  EXPECT_EQ(evaluated, (std::vector<int64_t>{6, 11, 17}));
  // The schedule restarts: its first step has no rate yet.
  for (const int64_t first : {1, 7, 12}) {
    EXPECT_EQ(reports_[first].result.rate, 0.0) << first;
    EXPECT_EQ(reports_[first + 1].result.rate, 5e-3) << first;
    EXPECT_EQ(reports_[first + 2].result.rate, 1e-2) << first;
  }
  // An epoch of another order begins with the stage.
  EXPECT_EQ(reports_[6].epoch, 2);
  EXPECT_EQ(reports_[7].epoch, 3);
  EXPECT_EQ(reports_[11].epoch, 4);
  EXPECT_EQ(reports_[12].epoch, 5);
  EXPECT_EQ(reports_[9].num_utterances, 8);
  EXPECT_EQ(reports_[2].num_utterances, 4);
}

// The durations of a stage's epoch are those of the sampler's first samples.
TEST_F(StagedRuns, EachTrainsOnItsOwnSamples) {
  run("run");
  std::vector<float> lengths;
  std::ifstream manifest(config_.data.train);
  for (std::string line; std::getline(manifest, line);)
    lengths.push_back(nlohmann::json::parse(line)["duration"].get<float>());
  for (const auto& [count, first, last] :
       {std::tuple(12, 1, 2), std::tuple(24, 7, 9), std::tuple(48, 12, 17)}) {
    const data::EpochOrder order = data::Sampler(sampler_options(config_, count), lengths).epoch(0);
    double expected = 0.0, trained = 0.0;
    for (int64_t step = 0; step < order.num_steps(); ++step)
      for (const uint32_t index : order.utterances(step))
        expected += double{lengths[static_cast<size_t>(index)]};
    for (int64_t step = first; step <= last; ++step) trained += reports_[step].audio_seconds;
    EXPECT_NEAR(trained, expected, 1e-3) << count;
  }
}

TEST_F(StagedRuns, OneStageOfAllDataIsAnOrdinaryRun) {
  config_.stages = {stage_of("all", 3)};
  config_.keep_best = 2;
  run("stages");
  config_.optimizer.schedule = config_.stages.front().schedule;
  config_.stages.clear();
  config_.epochs = 3;
  run("plain");
  EXPECT_EQ(tensors("stages", 18), tensors("plain", 18));
  EXPECT_EQ(content_of(step("stages", 18) / "state.json"),
            content_of(step("plain", 18) / "state.json"));
  EXPECT_EQ(list_checkpoints(at("stages")).size(), list_checkpoints(at("plain")).size());
}

TEST_F(StagedRuns, TheBestWeightsAreCarriedOnWithTheirMoments) {
  config_.stages = {forgetting_stage(), stage_of("all", 1)};
  config_.evaluate_every = 4;
  std::string carried;
  RunEvents events;
  events.staged = [&](const StageStart& start) {
    if (start.stage == 1) carried = tensors_now();
  };
  run("run", events);
  const int64_t best = starts_[1].weights_of_step;
  ASSERT_LT(best, 60) << "nothing was forgotten";
  ASSERT_GT(best, 0);
  for (const auto& [step, metric] : metrics_) {
    if (step <= 60) {
      EXPECT_LE(metrics_[best], metric) << step;
    }
  }
  EXPECT_EQ(starts_[1].metric, metrics_[best]);
  // It is still there, and its state is that of the stage's beginning.
  EXPECT_EQ(carried, tensors("run", best));
  // Bias correction counts the updates that the moments have seen.
  const RunState last = read_state(step("run", 66));
  EXPECT_EQ(last.step - last.skipped.of_all, best + 6);
  EXPECT_EQ(last.stage, 1);
  EXPECT_EQ(last.stage_begin, 60);
  EXPECT_EQ(last.schedule_steps, 6);
  // The steps of stages count on, and best/ is of the whole run.
  const RunState of_best = read_state(at("run") / "best");
  EXPECT_EQ(of_best.metric, std::ranges::min_element(metrics_, {}, [](const auto& entry) {
                              return entry.second;
                            })->second);
}

TEST_F(StagedRuns, DoNotDependOnInterruptions) {
  run("whole");
  const std::string whole = tensors("whole", 17);
  const std::vector<std::string> record = record_of("whole");
  for (int64_t number = 1; number < 17; ++number) {
    const std::string name = "run" + std::to_string(number);
    int64_t reached = 0;
    EXPECT_TRUE(run(name, stopping_at(number, &reached)).was_stopped);
    EXPECT_EQ(list_checkpoints(at(name)).back(), step(name, number));
    resume(name);
    EXPECT_EQ(tensors(name, 17), whole) << number;
    EXPECT_EQ(record_of(name), record) << number;
    EXPECT_EQ(read_state(step(name, 17)).skipped, read_state(step("whole", 17)).skipped);
  }
}

// The weights are already those of the next stage, and nothing of it is on the disk.
TEST_F(StagedRuns, AFailureRightAfterTheTransitionLosesNothing) {
  config_.stages[0] = forgetting_stage();
  config_.evaluate_every = 4;
  run("whole");
  ASSERT_LT(starts_[1].weights_of_step, 60);
  const int64_t last = 60 + 5 + 6;
  for (const int64_t stage : {1, 2}) {
    const std::string name = "run" + std::to_string(stage);
    RunEvents events;
    events.staged = [&](const StageStart& start) {
      if (start.stage == stage) throw std::runtime_error("lost");
    };
    EXPECT_THROW(run(name, events), std::runtime_error);
    EXPECT_EQ(read_state(list_checkpoints(at(name)).back()).stage, stage - 1);
    starts_.clear();
    resume(name);
    EXPECT_TRUE(starts_.contains(stage));
    EXPECT_EQ(tensors(name, last), tensors("whole", last)) << stage;
    EXPECT_EQ(record_of(name), record_of("whole"));
  }
}

// The end of the stage cannot be saved: an older checkpoint repeats it.
TEST_F(StagedRuns, AFullDiskAtTheTransitionLosesNothing) {
  run("whole");
  std::optional<test::FullDisk> full;
  RunEvents events;
  events.stepped = [&](const StepReport& report) {
    if (report.step == 5) full.emplace(size_t{20} << 10);
    if (report.step == 8) throw std::runtime_error("killed");
  };
  EXPECT_THROW(run("run", events), std::runtime_error);
  full.reset();
  EXPECT_PRED2(contains, warnings_, "no checkpoint was written");
  EXPECT_LT(read_state(list_checkpoints(at("run")).back()).step, 6);
  resume("run");
  EXPECT_EQ(tensors("run", 17), tensors("whole", 17));
}

TEST_F(StagedRuns, ADamagedBestCheckpointIsNamedAndTheNextBestUsed) {
  config_.stages = {forgetting_stage(), stage_of("all", 1)};
  config_.evaluate_every = 4;
  int64_t reached = 0;
  run("run", stopping_at(60, &reached));
  const uint64_t dev = read_state(step("run", 60)).dev_fingerprint;
  const std::vector<RankedCheckpoint> ranked = rank_checkpoints(at("run"), dev, 0);
  ASSERT_NE(ranked.front().step, 60);
  fs::resize_file(optimizer_path(ranked.front().path), 100);
  resume("run");
  EXPECT_PRED2(contains, warnings_,
               ranked.front().path.string() + " is the best of its stage, but cannot be used: ");
  EXPECT_NE(starts_[1].weights_of_step, ranked.front().step);
  EXPECT_EQ(starts_[1].weights_of_step, ranked[1].step);
}

TEST_F(StagedRuns, WithoutEvaluationTheLastWeightsAreCarriedOn) {
  config_.data.dev.clear();
  config_.evaluate_every = 0;
  std::string carried;
  RunEvents events;
  events.staged = [&](const StageStart& start) {
    if (start.stage != 1) return;
    carried = tensors_now();
    EXPECT_EQ(carried, tensors("run", 6));
  };
  run("run", events);
  EXPECT_FALSE(carried.empty());
  EXPECT_EQ(starts_[1].weights_of_step, 6);
  EXPECT_FALSE(starts_[1].metric.has_value());
  EXPECT_EQ(read_state(step("run", 17)).skipped.of_all, 0);
}

TEST_F(StagedRuns, EarlyStoppingEndsTheStage) {
  for (StageOptions& stage : config_.stages) stage.schedule.rate = 1e-30;
  config_.stages[2].schedule.rate = 1e-2;
  config_.evaluate_every = 1;
  config_.early_stopping.patience = 2;
  run("run");
  // The first evaluation of a stage counts as the best.
  EXPECT_EQ(starts_[1].first_step, 4);
  EXPECT_EQ(starts_[1].total_steps, 3 + 5 + 6);
  EXPECT_EQ(starts_[2].first_step, 7);
  EXPECT_EQ(starts_[2].total_steps, 6 + 6);
  // Resumed at its end, the stage is over.
  starts_.clear();
  int64_t reached = 0;
  const RunSummary stopped = run("again", stopping_at(3, &reached));
  EXPECT_EQ(stopped.steps, 3);
  EXPECT_EQ(starts_.size(), 1u);
  resume("again");
  EXPECT_EQ(starts_[1].first_step, 4);
  const int64_t last = read_state(list_checkpoints(at("run")).back()).step;
  EXPECT_EQ(tensors("again", last), tensors("run", last));
}

TEST_F(StagedRuns, KeepTheBestCheckpointOfEachStage) {
  run("run");
  std::set<int64_t> kept;
  for (const fs::path& path : list_checkpoints(at("run"))) kept.insert(read_state(path).step);
  EXPECT_TRUE(kept.contains(starts_[1].weights_of_step));
  EXPECT_TRUE(kept.contains(starts_[2].weights_of_step));
  EXPECT_TRUE(kept.contains(17));
  EXPECT_LE(kept.size(), 4u);
}

TEST_F(StagedRuns, RefuseDataThatIsTooSmall) {
  config_.stages[1] = stage_of("100k", 1);
  EXPECT_PRED2(
      contains, message_of<ConfigError>([&] { run("run"); }),
      "stage 2 with 100000 samples, and training data with 48. Expected at most 48 samples.");
  EXPECT_FALSE(fs::exists(at("run") / "metrics.jsonl"));
  // Counted after data.max_samples.
  config_.stages = {stage_of("20", 1), stage_of("all", 1)};
  config_.data.utterances.max_samples = 16;
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { run("run"); }), "training data with 16.");
}

TEST_F(StagedRuns, KeepTheirStagesWhenResumed) {
  int64_t reached = 0;
  run("run", stopping_at(8, &reached));
  config_.stages[2].epochs = 2;
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { resume("run"); }),
               "the stages are not those of the run");
  config_.stages.clear();
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { resume("run"); }),
               "the stages are not those of the run");
}

TEST_F(StagedRuns, ContinueFromAnOlderCheckpointOfAnEarlierStage) {
  config_.keep_checkpoints = 20;
  config_.checkpoint_every = 1;
  run("run");
  const std::string whole = tensors("run", 17);
  run("run", {}, step("run", 4));
  EXPECT_EQ(tensors("run", 17), whole);
  EXPECT_TRUE(is_whole_checkpoint(step("run", 17).string() + ".aside"));
}

TEST_F(StagedRuns, PlateauAndItsRateAreOfOneStage) {
  config_.evaluate_every = 1;
  for (StageOptions& stage : config_.stages) {
    stage.schedule = {};
    stage.schedule.kind = optim::ScheduleKind::kPlateau;
    stage.schedule.rate = 1e-30;
    stage.schedule.plateau_patience = 0;
  }
  run("run");
  EXPECT_LT(reports_[6].result.rate, 1e-30);
  EXPECT_EQ(reports_[7].result.rate, 1e-30);
  config_.data.dev.clear();
  config_.evaluate_every = 0;
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { run("other"); }),
               "kind: plateau without evaluation data");
}

}  // namespace
}  // namespace sotto::train
