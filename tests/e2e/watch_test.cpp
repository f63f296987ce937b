// What a run shows and leaves while it goes: the bar, the log, event files, caches given back.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "sotto/core/files/run_record.h"
#include "sotto/report/table.h"
#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

class Watch : public TrainRuns {
 protected:
  int64_t num_event_files(const std::string& out) const {
    int64_t count = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(run(out)))
      count += entry.path().filename().string().starts_with("events.out.tfevents.") ? 1 : 0;
    return count;
  }
  std::string log(const std::string& out) const { return content_of(run(out) / "log.txt"); }
  int64_t num_releases(const std::string& out) const {
    const RunRecordContent record = read_run_record(run(out) / "metrics.jsonl");
    return std::ranges::count_if(
        record.records, [](const nlohmann::json& line) { return line["kind"] == "release"; });
  }
};

int64_t count_of(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t index = text.find(part); index != std::string::npos;
       index = text.find(part, index + part.size()))
    ++count;
  return count;
}

TEST_F(Watch, EachProcessStartsAnEventFile) {
  ASSERT_EQ(train("run", {"--max-steps", "4"}).exit_code, 0);
  EXPECT_EQ(num_event_files("run"), 1);
  ASSERT_EQ(train("run", {"--resume", "--max-steps", "18"}).exit_code, 0);
  EXPECT_EQ(num_event_files("run"), 2);
}

TEST_F(Watch, LogSpansAllProcesses) {
  const CommandResult first = train("run", {"--max-steps", "4", "--log-every", "2"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_PRED2(contains, first.err, "info: step 2/4  loss ");
  EXPECT_PRED2(contains, first.err, " left\n");
  for (const char* part : {"format_version 1, sotto ", "parameters", "equal to the byte",
                           " info: step 2/4  loss ", " info: step 4: WER ", "Done after step 4"})
    EXPECT_PRED2(contains, log("run"), part);
  const std::string before = log("run");
  ASSERT_EQ(train("run", {"--resume", "--max-steps", "18", "--log-every", "6"}).exit_code, 0);
  EXPECT_TRUE(log("run").starts_with(before));
  EXPECT_EQ(count_of(log("run"), "format_version 1, sotto "), 2);
  EXPECT_PRED2(contains, log("run"), " info: step 18/18  loss ");
}

TEST_F(Watch, LogHasTheErrorThatEndedTheRun) {
  std::string lines = content_of(folder_.path() / "train.jsonl");
  nlohmann::json broken = nlohmann::json::parse(lines.substr(0, lines.find('\n')));
  broken["feature_filepath"] = "none.f16";
  folder_.write("train.jsonl", lines + broken.dump() + "\n");
  const CommandResult result = train("run");
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_PRED2(contains, log("run"), "\nsotto: ");
  EXPECT_PRED2(contains, log("run"), "none.f16");
}

TEST_F(Watch, PeriodicCacheReleaseChangesNothing) {
  ASSERT_EQ(train("kept").exit_code, 0);
  EXPECT_EQ(num_releases("kept"), 0);
  const CommandResult released = train("released", {"--set", "release_caches_every=3"});
  ASSERT_EQ(released.exit_code, 0) << released.err;
  EXPECT_EQ(num_releases("released"), 6);
  EXPECT_EQ(count_of(released.err, "released "), 6) << released.err;
  EXPECT_EQ(weights("released", 18), weights("kept", 18));
  const CommandResult never = train("never", {"--set", "release_caches_every=19"});
  EXPECT_EQ(never.exit_code, 2);
  EXPECT_PRED2(contains, never.err, "release_caches_every: 19 in a run of 18 updates");
  EXPECT_FALSE(fs::exists(run("never")));
}

// Wherever terminal output fails, the run completes with all its files.
TEST_F(Watch, FailedOutputNeverEndsARun) {
  ASSERT_EQ(train("whole").exit_code, 0);
  int number = 0;
  const auto expect_whole = [&](const std::string& out, const std::string& what) {
    EXPECT_TRUE(weights(out, 18) == weights("whole", 18)) << what;
    const RunRecordContent record = read_run_record(run(out) / "metrics.jsonl");
    EXPECT_EQ(record.records.size(), 18u + 3u) << what;
    EXPECT_FALSE(record.has_cut_tail) << what;
    EXPECT_TRUE(log(out).starts_with("format_version 1, sotto ")) << what;
    EXPECT_TRUE(content_of(run(out) / "config.yaml").starts_with("# format version of this file"))
        << what;
  };
  const std::vector<std::string> often = {"--log-every", "1"};
  for (const char* redirections :
       {"2>/dev/full", ">/dev/full 2>&1", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "<&- 2>&-"}) {
    const std::string out = "run" + std::to_string(++number);
    const CommandResult result = run_sotto_in_shell(words(out, often), redirections);
    EXPECT_EQ(result.exit_code, 0) << redirections << result.err;
    expect_whole(out, redirections);
  }
  // A reader that goes: the exit code is the reader's.
  run_sotto_in_shell(words("pipe", often), "2>&1 | head -n 1");
  expect_whole("pipe", "a pipe");
  EXPECT_EQ(run_sotto_on_closed_terminal(words("closed", often)), 0);
  expect_whole("closed", "a closed terminal");
}

// An error that cannot be printed is still an error.
TEST_F(Watch, ErrorsKeepTheirExitCodeWithoutTerminal) {
  for (const char* redirections : {"2>/dev/full", "2>&-", "<&- >&- 2>&-"}) {
    const CommandResult result =
        run_sotto_in_shell(words("run", {"--train", "nowhere.jsonl"}), redirections);
    EXPECT_EQ(result.exit_code, 2) << redirections;
  }
}

// A closed terminal sends one or more SIGHUPs: the run saves and ends.
TEST_F(Watch, HangupSavesAndEndsTheRun) {
  const std::vector<std::string> longer = {
      "--set", "epochs=400", "--set", "checkpoint_every=10000", "--set", "evaluate_every=10000"};
  EXPECT_EQ(run_sotto_and_signal(
                words("run", longer), SIGHUP, [&] { return num_lines("run") > 20; },
                SecondSignal{.signal = SIGHUP}),
            0);
  EXPECT_FALSE(fs::is_empty(run("run") / "checkpoints"));
}

// Between the codes that clear it, the bar never reaches the last column of the terminal.
TEST_F(Watch, ProgressBarFitsTheTerminal) {
  for (const int columns : {60, 90}) {
    const CommandResult result = run_sotto_on_terminal(
        words("at" + std::to_string(columns), {"--log-every", "1000"}), columns);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    int64_t num_bars = 0;
    const std::string mark = "\r\x1b[K";
    for (size_t index = result.err.find(mark); index != std::string::npos;) {
      const size_t begin = index + mark.size();
      index = result.err.find(mark, begin);
      const std::string line = result.err.substr(begin, index - begin);
      if (!line.starts_with("training ") || contains(line, "\n")) continue;
      ++num_bars;
      EXPECT_LT(report::display_width(line), columns) << line;
      EXPECT_PRED2(contains, line, "/18 loss ");
      if (columns == 90) {
        for (const char* part : {"[", " rate 3.0e-03 ", "x real time ", "/100 MiB ", " left"})
          EXPECT_PRED2(contains, line, part);
      }
    }
    EXPECT_GE(num_bars, 1);
  }
}

}  // namespace
}  // namespace sotto::test
