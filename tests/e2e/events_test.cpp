// `sotto train --json-events`: what other programs read of a run while it goes, as docs/events.md
// describes it.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "sotto/core/build_info.h"
#include "sotto/core/files/run_record.h"
#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

using Records = std::vector<nlohmann::json>;

class Events : public TrainRuns {
 protected:
  std::vector<std::string> with_events(const std::string& out,
                                       std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--json-events", file(out).string()});
    return words(out, more);
  }
  fs::path file(const std::string& out) const { return run(out) / "events.jsonl"; }
  Records events(const std::string& out) const { return read_run_record(file(out)).records; }
};

Records of_kind(const Records& events, const std::string& name) {
  Records found;
  std::ranges::copy_if(events, std::back_inserter(found),
                       [&](const nlohmann::json& event) { return event["event"] == name; });
  return found;
}

// An event without what metrics.jsonl does not have.
nlohmann::json as_metrics(nlohmann::json event) {
  event["kind"] = event["event"] == "recovery" ? nlohmann::json("out_of_memory") : event["event"];
  event.erase("event");
  event.erase("time");
  return event;
}

TEST_F(Events, FollowARunFromStartToEnd) {
  const CommandResult result = run_sotto(with_events("run"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Records all = events("run");
  ASSERT_GE(all.size(), 2u);
  EXPECT_EQ(all[0]["event"], "started");
  EXPECT_EQ(all[0]["format_version"], 1);
  EXPECT_EQ(all[0]["version"], build_info().version);
  EXPECT_GT(all[0]["pid"], 1);
  EXPECT_EQ(all[1]["event"], "plan");
  EXPECT_EQ(all[1]["facts"], nlohmann::json::parse(content_of(run("run") / "facts.json")));
  EXPECT_EQ(all[1]["facts"]["steps"]["total"], 18);
  EXPECT_EQ(of_kind(all, "checkpoint").size(), 9u);
  for (const nlohmann::json& event : of_kind(all, "checkpoint")) {
    EXPECT_EQ(fs::path(event["path"].get<std::string>()).filename().string(),
              "step-" + event["step"].dump());
  }
  nlohmann::json end = all.back();
  EXPECT_EQ(end["event"], "finished");
  end.erase("event");
  end.erase("time");
  EXPECT_EQ(end, nlohmann::json::parse(result.out));
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i]["time"], all[i - 1]["time"]);
}

// There is one description of a step, an evaluation and so on: that of metrics.jsonl.
TEST_F(Events, OfStepsAreTheLinesOfMetrics) {
  const CommandResult result = run_sotto(
      with_events("run", {"--inject-oom", "2", "--set", "epochs=10", "--set",
                          "stages=[{samples: 50%, epochs: 1}, {samples: all, steps: 4}]"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  Records same;
  for (const nlohmann::json& event : events("run")) {
    const bool is_other = event["event"] == "started" || event["event"] == "plan" ||
                          event["event"] == "checkpoint" || event["event"] == "warning" ||
                          event["event"] == "finished";
    if (!is_other) same.push_back(as_metrics(event));
  }
  EXPECT_EQ(same, read_run_record(run("run") / "metrics.jsonl").records);
  const Records all = events("run");
  EXPECT_EQ(of_kind(all, "stage").size(), 2u);
  EXPECT_EQ(of_kind(all, "recovery").size(), 1u);
  EXPECT_FALSE(of_kind(all, "evaluation").empty());
  const Records steps = of_kind(all, "step");
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back()["ends_epoch"], false);
  EXPECT_EQ(steps[2]["ends_epoch"], true);
}

TEST_F(Events, EndWithTheErrorInItsParts) {
  const CommandResult result =
      run_sotto(with_events("run", {"--json-errors", "--train", "nowhere.jsonl"}));
  EXPECT_EQ(result.exit_code, 2);
  const Records all = events("run");
  ASSERT_EQ(all.size(), 2u);
  nlohmann::json failed = all.back();
  EXPECT_EQ(failed["event"], "failed");
  failed.erase("event");
  failed.erase("time");
  EXPECT_EQ(failed["error"], "DataError");
  EXPECT_EQ(failed["exit_code"], 2);
  EXPECT_PRED2(contains, failed["attempted"].get<std::string>(), "nowhere.jsonl");
  EXPECT_NE(failed["found"], "");
  EXPECT_EQ(failed, nlohmann::json::parse(result.err));
  // The folder has no run, so that the next call may use it.
  EXPECT_EQ(run_sotto(with_events("run")).exit_code, 0);
  EXPECT_EQ(of_kind(events("run"), "started").size(), 2u);
}

TEST_F(Events, GoOnAfterAKill) {
  const std::vector<std::string> longer = {"--set", "epochs=20", "--resume"};
  const int killed = run_sotto_and_signal(with_events("run", longer), SIGKILL, [&] {
    return fs::exists(run("run") / "checkpoints" / "step-6");
  });
  ASSERT_EQ(killed, -SIGKILL);
  const Records before = events("run");
  EXPECT_EQ(of_kind(before, "finished").size() + of_kind(before, "failed").size(), 0u);
  ASSERT_EQ(run_sotto(with_events("run", longer)).exit_code, 0);
  const Records after = events("run");
  // What a process has told stays, steps that ran again included.
  ASSERT_GT(after.size(), before.size());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
  const Records plans = of_kind(after, "plan");
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_GT(plans.back()["facts"]["steps"]["first"], 1);
  EXPECT_EQ(after.back()["event"], "finished");
}

TEST_F(Events, HaveOneWriter) {
  const RunRecord other = [&] {
    fs::create_directories(run("run"));
    return RunRecord::open(file("run"));
  }();
  const CommandResult result = run_sotto(with_events("run"));
  expect_refusal(result, 2, {"events.jsonl", "another process is writing it"});
}

}  // namespace
}  // namespace sotto::test
