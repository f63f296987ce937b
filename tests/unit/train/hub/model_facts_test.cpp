#include "sotto/train/hub/model_facts.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/core/files/run_record.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Checkpoint checkpoint_at(int64_t step, int64_t next_epoch) {
  Checkpoint checkpoint{
      .state = {},
      .config = {},
      .tokenizer = data::Tokenizer(data::Vocabulary::from_texts({"abc"}), data::TextRules{})};
  checkpoint.state.step = step;
  checkpoint.state.next.epoch = next_epoch;
  return checkpoint;
}

json step_line(int64_t step, int64_t epoch, int64_t peak_bytes) {
  return {{"kind", "step"}, {"step", step},          {"epoch", epoch},          {"utterances", 8},
          {"frames", 50},   {"audio_seconds", 10.5}, {"peak_bytes", peak_bytes}};
}

json evaluation_line(int64_t step, int64_t substitutions) {
  const json counts = {
      {"insertions", 0}, {"deletions", 1}, {"substitutions", substitutions}, {"reference", 20}};
  return {{"kind", "evaluation"}, {"step", step},     {"words", counts},     {"characters", counts},
          {"loss", 0.5},          {"utterances", 12}, {"audio_seconds", 6.0}};
}

class ModelFactsTest : public ::testing::Test {
 protected:
  ModelFactsTest() {
    fs::create_directories(best());
    fs::create_directories(folder_.path() / "run/checkpoints/step-2");
  }
  fs::path best() const { return folder_.path() / "run" / "best"; }
  void record(const std::vector<json>& lines) const {
    RunRecord record = RunRecord::open(folder_.path() / "run" / "metrics.jsonl");
    for (const json& line : lines) record.append(line);
  }

  test::TempFolder folder_;
};

TEST_F(ModelFactsTest, CoverTheRunUpToTheWeights) {
  record({step_line(1, 0, 100), step_line(2, 0, 300), evaluation_line(2, 5), step_line(3, 1, 200),
          evaluation_line(3, 4), step_line(4, 1, 900), evaluation_line(4, 3)});
  folder_.write("run/memory.json",
                R"({"planned": {"peak_bytes": 100}, "measured": {"peak_bytes": 101}})");
  const RunFacts facts = read_run_facts(best(), checkpoint_at(3, 1));
  EXPECT_EQ(facts.step, 3);
  EXPECT_EQ(facts.evaluated_step, 3);
  EXPECT_EQ(facts.evaluation->words.substitutions, 4);
  EXPECT_EQ(facts.evaluation->num_utterances, 12);
  EXPECT_EQ(facts.epoch->num_items, 16);
  EXPECT_EQ(facts.epoch->audio_seconds, 21.0);
  EXPECT_EQ(facts.epoch->num_tokens, 0);
  EXPECT_EQ(facts.largest_peak_bytes, 300);
  EXPECT_EQ(facts.planned_peak_bytes, 100);
  EXPECT_EQ(facts.measured_peak_bytes, 101);
  const RunFacts older =
      read_run_facts(folder_.path() / "run/checkpoints/step-2", checkpoint_at(2, 1));
  EXPECT_EQ(older.evaluation->words.substitutions, 5);
}

// Steps of a killed run are recorded twice, and the first epoch may be incomplete.
TEST_F(ModelFactsTest, CountStepsOnceAndOnlyWholeEpochs) {
  record({step_line(1, 0, 100), step_line(2, 0, 500), step_line(2, 0, 300), step_line(3, 1, 200)});
  EXPECT_EQ(read_run_facts(best(), checkpoint_at(3, 1)).epoch->num_items, 16);
  EXPECT_EQ(read_run_facts(best(), checkpoint_at(3, 1)).largest_peak_bytes, 300);
  EXPECT_EQ(read_run_facts(best(), checkpoint_at(1, 0)).epoch, std::nullopt);
  const test::TempFolder other;
  fs::create_directories(other.path() / "best");
  RunRecord::open(other.path() / "metrics.jsonl").append(step_line(2, 0, 1));
  EXPECT_EQ(read_run_facts(other.path() / "best", checkpoint_at(3, 1)).epoch, std::nullopt);
}

TEST_F(ModelFactsTest, AreFewWithoutTheRunsFiles) {
  const RunFacts facts = read_run_facts(best(), checkpoint_at(3, 1));
  EXPECT_EQ(facts.step, 3);
  EXPECT_FALSE(facts.evaluation || facts.epoch || facts.largest_peak_bytes ||
               facts.planned_peak_bytes);
  // A checkpoint that was copied away must not take the facts of files that lie there by chance.
  record({step_line(1, 0, 100), evaluation_line(1, 5)});
  fs::create_directories(folder_.path() / "run" / "copy");
  EXPECT_FALSE(read_run_facts(folder_.path() / "run" / "copy", checkpoint_at(3, 1)).evaluation);
}

TEST_F(ModelFactsTest, RefuseInvalidRecords) {
  record({{{"kind", "step"}, {"step", 1}}});
  EXPECT_PRED2(test::contains,
               test::message_of<DataError>([&] { read_run_facts(best(), checkpoint_at(1, 1)); }),
               "metrics.jsonl");
}

}  // namespace
}  // namespace sotto::train
