// `sotto report` as a user meets it: complete, crashed and damaged runs, comparisons, mistakes.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "sotto/core/files/run_record.h"
#include "sotto/core/units.h"
#include "support/recorded_run.h"
#include "support/thrown.h"
#include "support/train_runs.h"
#include "support/xml_check.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

class Report : public TrainRuns {
 protected:
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }
  void record(const std::string& name) { RecordedRun::of_speech().write(folder_, name); }
  static void expect_refused(const CommandResult& result, const std::string& part) {
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_PRED2(contains, result.err, part);
  }
};

TEST_F(Report, ShowsWhatARunRecorded) {
  const CommandResult trained = train("run", {"--set", "epochs=2"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const nlohmann::json summary = nlohmann::json::parse(trained.out);
  const CommandResult result = run_sotto({"report", at("run")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_PRED2(contains, result.out, "complete");
  EXPECT_PRED2(contains, result.out, "Report: " + at("run/report.html"));
  EXPECT_PRED2(contains, result.out,
               fmt::format("{:.1f} % at step {}", 100.0 * summary["best_wer"].get<double>(),
                           summary["best_step"].get<int64_t>()));
  const std::string page = content_of(run("run") / "report.html");
  EXPECT_EQ(XmlCheck::problem_of(page), "");
  for (const char* part : {"predicted to the byte", "Memory over one step", "Gradient norm",
                           "What padded batches would have wasted", "data.loader_threads"})
    EXPECT_PRED2(contains, page, part);
  const std::string peak = format_bytes(summary["peak_bytes"].get<int64_t>());
  EXPECT_PRED2(contains, page, "data-figure=\"peak_bytes\">" + peak + "<");
}

// The exact values are those of metrics.jsonl.
TEST_F(Report, ValuesAreThoseOfTheRecord) {
  ASSERT_EQ(train("run", {"--max-steps", "6"}).exit_code, 0);
  const CommandResult result = run_sotto({"report", at("run"), "--json", "--csv", at("r/runs.csv"),
                                          "--md", at("r/runs.md"), "--svg", at("r/svg")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json run = nlohmann::json::parse(result.out)["runs"][0];
  const RunRecordContent record = read_run_record(at("run/metrics.jsonl"));
  int64_t peak = 0, num_steps = 0;
  double wer = 9.0;
  for (const nlohmann::json& line : record.records) {
    if (line["kind"] == "evaluation") wer = std::min(wer, line["words"]["rate"].get<double>());
    if (line["kind"] != "step") continue;
    ++num_steps;
    peak = std::max(peak, line["peak_bytes"].get<int64_t>());
  }
  EXPECT_EQ(run["peak_bytes"], peak);
  EXPECT_EQ(run["steps"], num_steps);
  EXPECT_EQ(run["best_wer"], wer);
  EXPECT_EQ(run["left_out"], nlohmann::json::array());
  EXPECT_GT(run["configuration"].size(), 30u);
  EXPECT_PRED2(contains, content_of(at("r/runs.csv")), std::to_string(peak));
  EXPECT_PRED2(contains, content_of(at("r/runs.md")), "## Evaluations");
  for (const char* chart : {"loss", "memory", "timeline", "planned_and_measured"})
    EXPECT_EQ(XmlCheck::problem_of(content_of(at(std::string("r/svg/") + chart + ".svg"))), "");
}

// The categories of a moment add up to its bytes, and the highest moment is the peak.
TEST_F(Report, TheTimelineIsThatOfTheFirstStep) {
  ASSERT_EQ(train("run", {"--max-steps", "1"}).exit_code, 0);
  const nlohmann::json memory = nlohmann::json::parse(content_of(run("run") / "memory.json"));
  int64_t peak = 0;
  for (const nlohmann::json& moment : memory["timeline"]) {
    int64_t sum = 0;
    for (const nlohmann::json& bytes : moment["by_category"]) sum += bytes.get<int64_t>();
    EXPECT_EQ(sum, moment["bytes"]) << moment;
    peak = std::max(peak, sum);
  }
  EXPECT_GT(memory["timeline"].size(), 5u);
  EXPECT_EQ(peak, memory["planned"]["peak_bytes"]);
  EXPECT_EQ(peak, memory["measured"]["peak_bytes"]);
}

TEST_F(Report, AnExtendedRunHasItsNewLengthAndItsReasons) {
  ASSERT_EQ(train("run", {"--max-steps", "4"}).exit_code, 0);
  const auto facts = [&] { return nlohmann::json::parse(content_of(run("run") / "facts.json")); };
  const nlohmann::json before = facts();
  EXPECT_EQ(before["steps"]["total"], 4);
  EXPECT_FALSE(before["reasons"].empty());
  ASSERT_EQ(train("run", {"--resume", "--max-steps", "6"}).exit_code, 0);
  EXPECT_EQ(facts()["steps"]["total"], 6);
  EXPECT_EQ(facts()["reasons"], before["reasons"]);
  EXPECT_EQ(facts()["step_time"], before["step_time"]);
  const CommandResult result = run_sotto({"report", at("run"), "--json"});
  const nlohmann::json reported = nlohmann::json::parse(result.out)["runs"][0];
  EXPECT_EQ(reported["events"][0]["event"], "resume");
}

TEST_F(Report, AKilledRunIsReported) {
  const std::string metrics = at("run/metrics.jsonl");
  run_sotto_and_signal(words("run", {"--set", "epochs=500"}), SIGKILL,
                       [&] { return fs::exists(metrics) && num_lines("run") > 8; });
  const CommandResult result = run_sotto({"report", at("run"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json run = nlohmann::json::parse(result.out)["runs"][0];
  EXPECT_EQ(run["state"], "interrupted");
  EXPECT_GE(run["steps"], 5);
}

TEST_F(Report, DamagedFilesAreNamed) {
  record("run");
  folder_.write("run/memory.json", "{");
  const CommandResult result = run_sotto({"report", at("run")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "left out of " + at("run") + ": memory.json");
  EXPECT_PRED2(contains, content_of(at("run/report.html")), "memory.json");
}

TEST_F(Report, SeveralRunsAreCompared) {
  record("first");
  record("second");
  const CommandResult tables = run_sotto({"report", at("first"), at("second")});
  ASSERT_EQ(tables.exit_code, 0) << tables.err;
  EXPECT_PRED2(contains, tables.out, "For a page: --out");
  EXPECT_FALSE(fs::exists(at("first/report.html")));
  const CommandResult page =
      run_sotto({"report", at("first"), at("second"), "--out", at("both.html")});
  ASSERT_EQ(page.exit_code, 0) << page.err;
  EXPECT_PRED2(contains, content_of(at("both.html")), "Comparison of 2 runs");
}

TEST_F(Report, MistakesAreRefused) {
  record("run");
  fs::create_directories(at("empty"));
  expect_refused(run_sotto({"report", at("empty")}), "an empty folder");
  expect_refused(run_sotto({"report", at("missing")}), "no such folder");
  expect_refused(run_sotto({"report", at("train.jsonl")}), "a file");
  expect_refused(run_sotto({"report", at("run"), at("run/")}), "twice");
  expect_refused(run_sotto({"report"}), "runs");
  // Not even root can write there.
  expect_refused(run_sotto({"report", at("run"), "--out", "/proc/report/page.html"}),
                 "/proc/report");
  folder_.write("run/facts.json", R"({"format_version": 99})");
  expect_refused(run_sotto({"report", at("run")}), "newer sotto");
}

TEST_F(Report, OnlyReportsAreOverwritten) {
  record("run");
  const std::string metrics = content_of(at("run/metrics.jsonl"));
  for (const char* option : {"--out", "--csv", "--md"}) {
    expect_refused(run_sotto({"report", at("run"), option, at("run/metrics.jsonl")}),
                   "a file that is no report");
    expect_refused(run_sotto({"report", at("run"), option, at("run")}), "a folder");
  }
  EXPECT_EQ(content_of(at("run/metrics.jsonl")), metrics);
  const std::vector<std::string> words = {"report",    at("run"), "--csv",
                                          at("a.csv"), "--md",    at("a.md")};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run_sotto(words).exit_code, 0);
}

}  // namespace
}  // namespace sotto::test
