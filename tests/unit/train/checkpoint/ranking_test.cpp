// The rank of checkpoints by their evaluations, and which of them a run keeps.
#include "sotto/train/checkpoint/ranking.h"

#include <gtest/gtest.h>

#include <set>

#include "sotto/core/error.h"
#include "sotto/train/checkpoint/average.h"
#include "support/checkpoints.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::train {
namespace {

namespace fs = std::filesystem;
using test::contains;

constexpr uint64_t kDev = 7;
constexpr uint64_t kOtherDev = 8;

class Ranking : public ::testing::Test {
 protected:
  Ranking() { tiny_.config.keep_best = 4; }
  static RunState evaluated(int64_t step, double metric) {
    RunState state;
    state.step = step;
    state.metric = metric;
    state.dev_fingerprint = kDev;
    return state;
  }
  void write(int64_t step, std::optional<double> metric, uint64_t dev = kDev, int64_t stage = 0) {
    RunState state;
    state.stage = stage;
    state.stage_begin = stage > 0 ? step - 1 : 0;
    state.step = step;
    state.metric = metric;
    state.dev_fingerprint = dev;
    state.shape = tiny_.shape;
    write_checkpoint(
        checkpoint_path(run_, step), *learner_,
        {.state = state, .config = tiny_.config, .tokenizer = test::tokenizer_of("abcd")});
  }
  std::vector<int64_t> ranked(uint64_t dev = kDev) const {
    std::vector<int64_t> steps;
    for (const RankedCheckpoint& checkpoint : rank_checkpoints(run_, dev))
      steps.push_back(checkpoint.step);
    return steps;
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(run_ / kCheckpointsFolder))
      found.insert(entry.path().filename());
    return found;
  }
  std::vector<fs::path> paths(const std::vector<int64_t>& steps) const {
    std::vector<fs::path> found;
    for (const int64_t step : steps) found.push_back(checkpoint_path(run_, step));
    return found;
  }

  test::TempFolder temp_;
  fs::path run_ = temp_.path() / "run";
  test::TinyModel tiny_ = test::tiny_models()[4];
  std::unique_ptr<Learner> learner_ = test::make_learner(tiny_);
};

TEST_F(Ranking, IsByMetricAndThenTheLaterFirst) {
  write(2, 0.5);
  write(4, 0.25);
  write(6, 0.5);
  write(10, 0.75);
  EXPECT_EQ(ranked(), (std::vector<int64_t>{4, 6, 2, 10}));
}

TEST_F(Ranking, IncludesOnlyReadableCheckpointsEvaluatedOnTheSameData) {
  write(2, 0.5);
  write(4, 0.1, kOtherDev);
  write(6, std::nullopt);
  write(8, 0.2);
  write(10, 0.3);
  fs::resize_file(checkpoint_path(run_, 8) / "state.json", 20);
  fs::remove(checkpoint_path(run_, 10) / "state.json");
  EXPECT_EQ(ranked(), std::vector<int64_t>{2});
  EXPECT_EQ(ranked(kOtherDev), std::vector<int64_t>{4});
  EXPECT_EQ(dev_fingerprint_of(run_), kDev);
  EXPECT_EQ(dev_fingerprint_of(temp_.path() / "none"), 0u);
}

TEST_F(Ranking, KeepsTheNewestAndTheBest) {
  write(2, 0.1);
  write(4, 0.4);
  write(6, 0.3);
  write(8, 0.2);
  write(10, std::nullopt);
  // Step 8 is kept for both reasons, and counts for both.
  remove_other_checkpoints(run_, {.num_newest = 2, .num_best = 2});
  EXPECT_EQ(names(), (std::set<std::string>{"step-2", "step-8", "step-10"}));
  remove_other_checkpoints(run_, {.num_newest = 1});
  EXPECT_EQ(names(), std::set<std::string>{"step-10"});
  remove_other_checkpoints(run_, {.num_newest = 5});
  EXPECT_EQ(names(), std::set<std::string>{"step-10"});
}

// Another manifest or another search must not cost what an earlier one selected.
TEST_F(Ranking, KeepsTheBestOfEachEvaluationData) {
  write(2, 0.1);
  write(4, 0.4);
  write(6, 0.9, kOtherDev);
  write(8, 0.8, kOtherDev);
  write(10, std::nullopt, 0);
  remove_other_checkpoints(run_, {.num_newest = 1, .num_best = 1});
  EXPECT_EQ(names(), (std::set<std::string>{"step-2", "step-8", "step-10"}));
}

// The best of all is in an earlier stage.
TEST_F(Ranking, IsOfOneStageWhereAskedFor) {
  write(2, 0.1);
  write(4, 0.2);
  write(6, 0.9, kDev, 1);
  write(8, 0.8, kDev, 1);
  const std::vector<RankedCheckpoint> second = rank_checkpoints(run_, kDev, 1);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second.front().step, 8);
  EXPECT_EQ(rank_checkpoints(run_, kDev, 0).front().step, 2);
  EXPECT_EQ(rank_checkpoints(run_, kDev).size(), 4u);
  EXPECT_TRUE(rank_checkpoints(run_, kDev, 2).empty());
  EXPECT_EQ(read_state(checkpoint_path(run_, 8)).stage, 1);
  EXPECT_EQ(read_state(checkpoint_path(run_, 8)).stage_begin, 7);
  RunState state = evaluated(9, 0.8);
  state.stage = 1;
  EXPECT_TRUE(is_best_of_stage(run_, state));
  state.metric = 0.85;
  EXPECT_FALSE(is_best_of_stage(run_, state));
  state.metric.reset();
  EXPECT_FALSE(is_best_of_stage(run_, state));
}

TEST_F(Ranking, KeepsTheBestOfEachStage) {
  write(2, 0.1);
  write(4, 0.2);
  write(6, 0.8, kDev, 1);
  write(8, 0.9, kDev, 1);
  write(10, 0.95, kDev, 1);
  remove_other_checkpoints(run_, {.num_newest = 1, .num_best = 0, .keeps_best_of_stages = true});
  EXPECT_EQ(names(), (std::set<std::string>{"step-2", "step-6", "step-10"}));
  remove_other_checkpoints(run_, {.num_newest = 1, .num_best = 1});
  EXPECT_EQ(names(), (std::set<std::string>{"step-2", "step-10"}));
}

// It may be one of the best, and readable again.
TEST_F(Ranking, KeepsWhatItCannotRead) {
  for (const int64_t step : {2, 4, 6}) write(step, 0.1 * static_cast<double>(step));
  fs::resize_file(checkpoint_path(run_, 4) / "state.json", 20);
  remove_other_checkpoints(run_, {.num_newest = 1, .num_best = 1});
  EXPECT_EQ(names(), (std::set<std::string>{"step-2", "step-4", "step-6"}));
}

TEST_F(Ranking, BestEvaluationsIncludeEquallyGoodLaterOnes) {
  RunState state = evaluated(8, 0.4);
  EXPECT_TRUE(is_among_best_checkpoints(run_, 1, state));
  EXPECT_FALSE(is_among_best_checkpoints(run_, 0, state));
  write(2, 0.4);
  write(4, 0.1);
  EXPECT_TRUE(is_among_best_checkpoints(run_, 2, state));
  EXPECT_FALSE(is_among_best_checkpoints(run_, 1, state));
  state.metric = 0.5;
  EXPECT_FALSE(is_among_best_checkpoints(run_, 2, state));
  state.dev_fingerprint = kOtherDev;
  EXPECT_TRUE(is_among_best_checkpoints(run_, 1, state));
  state.metric.reset();
  EXPECT_FALSE(is_among_best_checkpoints(run_, 9, state));
  // A checkpoint that is written again does not compete with itself.
  EXPECT_TRUE(is_among_best_checkpoints(run_, 1, evaluated(4, 0.3)));
}

// Better ones than the newest that are there may have been removed.
TEST_F(Ranking, DoesNotChooseMoreThanTheRunKept) {
  tiny_.config.keep_best = 1;
  for (const int64_t step : {2, 4, 6}) write(step, 0.1 * static_cast<double>(step));
  EXPECT_EQ(best_checkpoints(run_, 1), paths({2}));
  EXPECT_PRED2(contains, test::message_of<DataError>([&] { best_checkpoints(run_, 2); }),
               "a run that keeps its best 1 (keep_best)");
}

// The run as it was resumed last counts, not the checkpoint that happens to be the best.
TEST_F(Ranking, TheNewestConfigurationSaysHowManyTheRunKeeps) {
  write(2, 0.1);
  write(4, 0.2);
  tiny_.config.keep_best = 2;
  tiny_.config.keep_checkpoints = 2;
  write(6, 0.3);
  write(8, 0.4);
  EXPECT_EQ(best_checkpoints(run_, 2), paths({2, 4}));
  EXPECT_PRED2(contains, test::message_of<DataError>([&] { best_checkpoints(run_, 3); }),
               "a run that keeps its best 2");
  // Steps 2 and 4 are there for their evaluations.
  EXPECT_EQ(newest_checkpoints(run_, 2), paths({6, 8}));
  EXPECT_PRED2(contains, test::message_of<DataError>([&] { newest_checkpoints(run_, 3); }),
               "a run that keeps its newest 2 (keep_checkpoints)");
}

TEST_F(Ranking, ChoosesTheCheckpointsToAverage) {
  write(2, 0.1);
  write(4, 0.4);
  write(10, 0.3);
  write(12, 0.5);
  // Oldest first: everything except the weights comes from the latest.
  EXPECT_EQ(best_checkpoints(run_, 2), paths({2, 10}));
  EXPECT_EQ(best_checkpoints(run_, 3), paths({2, 4, 10}));
  EXPECT_PRED2(
      contains, test::message_of<DataError>([&] { best_checkpoints(run_, 5); }),
      "4 checkpoints with an evaluation on the current evaluation data. Expected at least 5. "
      "keep_best sets how many a run keeps.");
  average_checkpoints(best_checkpoints(run_, 2), temp_.path() / "mean");
  EXPECT_FALSE(read_state(temp_.path() / "mean").metric.has_value());
}

}  // namespace
}  // namespace sotto::train
