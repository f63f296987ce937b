// Reading the folders of runs: complete, running, crashed, damaged, of a newer version.
#include "sotto/report/run_reader.h"

#include <gtest/gtest.h>

#include <fstream>

#include "sotto/core/error.h"
#include "sotto/core/files/folder_lock.h"
#include "support/recorded_run.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::report {
namespace {

using test::contains;
using test::message_of;
using test::RecordedRun;

class RunReader : public ::testing::Test {
 protected:
  RunContent read() {
    recorded_.write(folder_, "run");
    return read_run(path());
  }
  std::filesystem::path path() const { return folder_.path() / "run"; }
  // Expects that exactly this file was left out.
  static void expect_left_out(const RunContent& run, const std::string& file) {
    ASSERT_EQ(run.problems.size(), 1u);
    EXPECT_TRUE(run.problems.front().starts_with(file + ": ")) << run.problems.front();
  }

  test::TempFolder folder_;
  RecordedRun recorded_ = RecordedRun::of_speech();
};

TEST_F(RunReader, ReadsWhatARunRecorded) {
  const RunContent run = read();
  EXPECT_TRUE(run.problems.empty());
  EXPECT_EQ(run.name, "run");
  EXPECT_EQ(run.state, RunState::kComplete);
  ASSERT_EQ(run.steps.size(), 40u);
  EXPECT_EQ(run.steps[3].loss, 2.0);
  EXPECT_EQ(run.peak_bytes(), 64 << 20);
  EXPECT_EQ(run.speed(), 32.0);
  ASSERT_NE(run.best_evaluation(), nullptr);
  EXPECT_EQ(run.best_evaluation()->step, 40);
  EXPECT_EQ(*run.best_evaluation()->wer, 0.25);
  EXPECT_EQ(run.count(RunEvent::Kind::kOutOfMemory), 1);
  EXPECT_PRED2(contains, run.events.front().text, "400 frames and 4 utterances");
  EXPECT_EQ(run.setting("model.layers"), "2");
  EXPECT_EQ(run.facts->padding_batch, 8);
  EXPECT_EQ(run.memory->timeline.size(), 6u);
  EXPECT_EQ(run.memory->categories.front(), "weights");
  EXPECT_EQ(run.checkpoints, (std::vector<int64_t>{40}));
}

// The path may end in a slash.
TEST_F(RunReader, TheNameIsThatOfTheFolder) {
  recorded_.write(folder_, "run");
  EXPECT_EQ(read_run(path() / "").name, "run");
}

TEST_F(RunReader, StateIsThatOfTheLatestProcess) {
  recorded_.log =
      "format_version 1\nsotto: reading x: broken.\nformat_version 1\nDone after step 40\n";
  EXPECT_EQ(read().state, RunState::kComplete);
  recorded_.log = "format_version 1\nStopped and saved after step 9\nformat_version 1\nstep 10\n";
  recorded_.facts["steps"]["total"] = 50;
  EXPECT_EQ(read().state, RunState::kInterrupted);
  recorded_.log = "format_version 1\nDone after step 4\nformat_version 1\nsotto: no space left.\n";
  const RunContent failed = read();
  EXPECT_EQ(failed.state, RunState::kFailed);
  EXPECT_EQ(failed.error, "no space left.");
}

TEST_F(RunReader, ARunInProgressIsSeenByItsLock) {
  recorded_.log = "format_version 1\n";
  recorded_.write(folder_, "run");
  {
    const FolderLock lock(path());
    EXPECT_EQ(read_run(path()).state, RunState::kRunning);
  }
  EXPECT_EQ(read_run(path()).state, RunState::kComplete) << "it has all of its steps";
}

// A line that is just being written is not damage.
TEST_F(RunReader, ATruncatedLastLineIsIgnored) {
  recorded_.write(folder_, "run");
  std::ofstream(path() / "metrics.jsonl", std::ios::app) << R"({"kind":"step","st)";
  const RunContent run = read_run(path());
  EXPECT_TRUE(run.problems.empty());
  EXPECT_EQ(run.steps.size(), 40u);
}

TEST_F(RunReader, DamagedFilesAreNamedAndLeftOut) {
  for (const char* file : {"metrics.jsonl", "facts.json", "memory.json", "config.yaml"}) {
    for (const char* content : {"", "{", "[1, 2]", "\xFF\xFE\x00", "{\"a\": [[[[", "a: b: c"}) {
      recorded_.write(folder_, "run");
      folder_.write(std::string("run/") + file, content);
      const RunContent run = read_run(path());
      EXPECT_LE(run.problems.size(), 1u);
      EXPECT_EQ(run.steps.empty(), std::string(file) == "metrics.jsonl") << file;
    }
    recorded_.write(folder_, "run");
    folder_.write(std::string("run/") + file, "\x01 broken {");
    expect_left_out(read_run(path()), file);
  }
  recorded_.write(folder_, "run");
  folder_.write("run/limits.json", R"({"format_version": 1, "limits": {"max_frames": "many"}})");
  expect_left_out(read_run(path()), "limits.json");
}

TEST_F(RunReader, LinesBeforeABrokenOneAreUsed) {
  recorded_.write(folder_, "run");
  std::string text = test::content_of(folder_.path() / "run" / "metrics.jsonl");
  size_t line = 0;
  for (int i = 0; i < 9; ++i) line = text.find('\n', line) + 1;
  text.insert(line, "{broken\n");
  folder_.write("run/metrics.jsonl", text);
  const RunContent run = read_run(path());
  EXPECT_EQ(run.steps.size() + run.evaluations.size() + run.events.size(), 8u);
  ASSERT_EQ(run.problems.size(), 1u);
  EXPECT_PRED2(contains, run.problems.front(), "The 8 lines before it are used.");
}

TEST_F(RunReader, ValuesOfAnotherTypeAreDamage) {
  recorded_.facts["budget"]["total_bytes"] = "much";
  expect_left_out(read(), "facts.json");
  recorded_ = RecordedRun::of_speech();
  recorded_.memory["timeline"][2]["bytes"] = nlohmann::json::array();
  expect_left_out(read(), "memory.json");
  recorded_ = RecordedRun::of_speech();
  recorded_.records[3]["loss"] = "high";
  recorded_.records[5]["step"] = nullptr;
  const RunContent run = read();
  expect_left_out(run, "metrics.jsonl");
  EXPECT_PRED2(contains, run.problems.front(), "2 lines");
  EXPECT_EQ(run.steps.size(), 38u);
}

TEST_F(RunReader, UnknownRecordsAreIgnored) {
  recorded_.records.push_back({{"kind", "a later invention"}, {"step", 41}});
  const RunContent run = read();
  EXPECT_TRUE(run.problems.empty());
  EXPECT_EQ(run.last_step(), 40);
}

TEST_F(RunReader, ARepeatedStepCountsOnce) {
  nlohmann::json again = recorded_.records[3];
  again["loss"] = 99.0;
  recorded_.records.push_back(again);
  const RunContent run = read();
  EXPECT_EQ(run.steps.size(), 40u);
  EXPECT_EQ(run.steps[3].loss, 99.0);
}

TEST_F(RunReader, OverflowIsAnEvent) {
  recorded_.records[9]["updated"] = false;
  recorded_.records[9]["loss"] = "nan";
  const RunContent run = read();
  EXPECT_EQ(run.count(RunEvent::Kind::kOverflow), 1);
  EXPECT_TRUE(run.problems.empty());
}

TEST_F(RunReader, NewerFormatsAreRefused) {
  const auto expect_refused = [&](const char* file) {
    recorded_.write(folder_, "run");
    EXPECT_PRED2(contains, message_of<DataError>([&] { read_run(path()); }), file);
    EXPECT_PRED2(contains, message_of<DataError>([&] { read_run(path()); }), "newer sotto");
  };
  recorded_.header["format_version"] = 2;
  expect_refused("metrics.jsonl");
  recorded_ = RecordedRun::of_speech();
  recorded_.facts["format_version"] = 2;
  expect_refused("facts.json");
  recorded_ = RecordedRun::of_speech();
  recorded_.memory["format_version"] = 2;
  expect_refused("memory.json");
  recorded_ = RecordedRun::of_speech();
  recorded_.config = "format_version: 2\nsomething: {new: true}\n";
  expect_refused("config.yaml");
}

TEST_F(RunReader, OtherFoldersAreRefused) {
  EXPECT_PRED2(contains, message_of<DataError>([&] { read_run(path()); }), "no such folder");
  std::filesystem::create_directories(path());
  EXPECT_PRED2(contains, message_of<DataError>([&] { read_run(path()); }), "an empty folder");
  folder_.write("run/diary.txt", "dear diary");
  EXPECT_PRED2(contains, message_of<DataError>([&] { read_run(path()); }), "neither metrics.jsonl");
  EXPECT_PRED2(contains, message_of<DataError>([&] { read_run(path() / "diary.txt"); }), "a file");
}

// Before its first step a run has a configuration alone.
TEST_F(RunReader, ABegunRunIsReadable) {
  folder_.write("run/config.yaml", recorded_.config);
  const RunContent run = read_run(path());
  EXPECT_TRUE(run.problems.empty());
  EXPECT_EQ(run.state, RunState::kInterrupted);
  EXPECT_TRUE(run.steps.empty());
}

}  // namespace
}  // namespace sotto::report
