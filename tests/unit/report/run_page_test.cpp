// The pages of runs: complete, well-formed, without anything from elsewhere.
#include "sotto/report/run_page.h"

#include <gtest/gtest.h>

#include "sotto/report/run_figures.h"
#include "sotto/report/run_reader.h"
#include "sotto/report/run_tables.h"
#include "support/recorded_run.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/xml_check.h"

namespace sotto::report {
namespace {

using test::contains;
using test::RecordedRun;

class RunPage : public ::testing::Test {
 protected:
  RunContent read(const std::string& name = "run") {
    recorded_.write(folder_, name);
    return read_run(folder_.path() / name);
  }
  static void expect_self_contained(const std::string& html) {
    EXPECT_EQ(test::XmlCheck::problem_of(html), "");
    for (const char* foreign : {"http", "src=", "<script", "@import", "url("})
      EXPECT_FALSE(contains(html, foreign)) << foreign;
  }
  static std::vector<std::string> names_of(const std::vector<Figure>& figures) {
    std::vector<std::string> names;
    for (const Figure& figure : figures) names.push_back(figure.name);
    return names;
  }

  test::TempFolder folder_;
  RecordedRun recorded_ = RecordedRun::of_speech();
};

TEST_F(RunPage, ShowsTheFiguresOfTheRun) {
  const std::string html = run_page(read()).to_html();
  expect_self_contained(html);
  for (const char* part :
       {"data-figure=\"steps\">40<", "data-figure=\"best_quality\">25.0 %<",
        "data-figure=\"peak_bytes\">64.0 MiB<", "data-figure=\"speed\">32x real time<",
        "64 % of the budget of 100 MiB", "backward of layer 1, micro-batch 1", "everything fits",
        "an injected failure", "predicted to the byte", "31.0 %", "a CPU"})
    EXPECT_TRUE(contains(html, part)) << part;
}

TEST_F(RunPage, HasAChartOfEverythingRecorded) {
  EXPECT_EQ(names_of(figures_of(read())),
            (std::vector<std::string>{"loss", "quality", "learning_rate", "gradient_norm", "memory",
                                      "planned_and_measured", "timeline", "throughput", "run_time",
                                      "step_time", "padding"}));
}

nlohmann::json stage_record(int64_t stage, int64_t step, int64_t steps, int64_t total) {
  return {{"kind", "stage"},
          {"step", step},
          {"stage", stage},
          {"stages", 2},
          {"name", stage == 0 ? "25%" : "all"},
          {"samples", stage == 0 ? 20 : 80},
          {"steps", steps},
          {"total_steps", total},
          {"weights_of_step", stage == 0 ? 0 : 17}};
}

// The first of two stages was planned with 30 steps and ended after 20.
TEST_F(RunPage, ShowsStages) {
  recorded_.records.insert(recorded_.records.begin(), stage_record(0, 1, 30, 50));
  // Repeated by a resumed run.
  recorded_.records.push_back(stage_record(1, 21, 20, 40));
  recorded_.records.push_back(stage_record(1, 21, 20, 40));
  recorded_.facts["steps"]["total"] = 50;
  const RunContent run = read();
  EXPECT_EQ(run.total_steps(), 40);
  EXPECT_EQ(run.state, RunState::kComplete);
  EXPECT_TRUE(run.problems.empty());
  const nlohmann::ordered_json rows = rows_json(stage_table(run));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["steps"], 20);
  EXPECT_EQ(rows[0]["planned_steps"], 30);
  EXPECT_EQ(rows[0]["best"], 0.5);
  EXPECT_EQ(rows[1]["first_step"], 21);
  EXPECT_EQ(rows[1]["steps"], 20);
  EXPECT_EQ(rows[1]["samples"], 80);
  EXPECT_EQ(rows[1]["weights_of_step"], 17);
  EXPECT_EQ(rows[1]["best"], 0.25);
  const std::string html = run_page(run).to_html();
  expect_self_contained(html);
  for (const char* part : {"Stages", "25%", "weights of step"})
    EXPECT_TRUE(contains(html, part)) << part;
  EXPECT_TRUE(contains(inline_svg(loss_figure(run)), ">stage<"));
}

TEST_F(RunPage, ShowsNoStagesOfARunWithoutThem) {
  const RunContent run = read();
  EXPECT_TRUE(stage_table(run).is_empty());
  EXPECT_FALSE(contains(inline_svg(loss_figure(run)), ">stage<"));
}

TEST_F(RunPage, WhatIsMissingIsLeftOut) {
  recorded_.facts = nlohmann::json::object();
  recorded_.memory = nlohmann::json::object();
  recorded_.records.clear();
  recorded_.log = "";
  const RunContent run = read();
  EXPECT_TRUE(figures_of(run).empty());
  expect_self_contained(run_page(run).to_html());
}

TEST_F(RunPage, ProblemsAreShown) {
  recorded_.log = "format_version 1\nsotto: no <space> left.\n";
  recorded_.write(folder_, "run");
  folder_.write("run/memory.json", "{");
  const std::string html = run_page(read_run(folder_.path() / "run")).to_html();
  expect_self_contained(html);
  EXPECT_TRUE(contains(html, "no &lt;space&gt; left."));
  EXPECT_TRUE(contains(html, "memory.json: "));
  EXPECT_TRUE(contains(html, "data-figure=\"state\">failed<"));
}

TEST_F(RunPage, ComparesRuns) {
  std::vector<RunContent> runs = {read("first")};
  recorded_.config += "effective_batch: 4\n";
  recorded_.records.back()["words"]["rate"] = 0.125;
  runs.push_back(read("second"));
  const std::string html = comparison_page(runs).to_html();
  expect_self_contained(html);
  for (const char* part : {"Comparison of 2 runs", "first", "second", "12.5 %", "25.0 %",
                           "effective_batch", "Quality against memory", "Speed against memory"})
    EXPECT_TRUE(contains(html, part)) << part;
  EXPECT_EQ(names_of(comparison_figures(runs)),
            (std::vector<std::string>{"best_quality", "peak_memory", "speed", "step_seconds",
                                      "quality_against_memory", "speed_against_memory", "loss",
                                      "quality"}));
  const nlohmann::ordered_json json = runs_json(runs);
  EXPECT_EQ(json["runs"][1]["best_wer"], 0.125);
  EXPECT_EQ(json["runs"][1]["peak_bytes"], 64 << 20);
  EXPECT_TRUE(contains(csv_text(comparison_table(runs)), "first,complete,tiny,12345,fp32,"));
  EXPECT_TRUE(contains(runs_markdown(runs), "| effective_batch | - | 4 |"));
}

TEST_F(RunPage, RunsOfTheSameNameAreToldApart) {
  const std::vector<RunContent> runs = {read("a/run"), read("b/run")};
  const std::vector<std::string> names = distinct_names(runs);
  EXPECT_TRUE(names[0].ends_with("a/run")) << names[0];
  EXPECT_TRUE(names[1].ends_with("b/run")) << names[1];
}

}  // namespace
}  // namespace sotto::report
