#include "sotto/lab/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "sotto/core/error.h"
#include "sotto/lab/analysis.h"
#include "sotto/lab/comparison_page.h"
#include "sotto/lab/comparison_tables.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/xml_check.h"

namespace sotto::lab {
namespace {

using test::contains;
using test::message_of;

// A completed row of a suite on text.
struct Figures {
  std::string name;
  double seconds = 1.0;
  int64_t peak = 1000;
  double dev_loss = 2.0;
  std::vector<std::string> settings = {"numerics=fp32", "tier=none", "model.attention=plain"};
};

Result row(const Figures& figures) {
  Result result;
  result.suite = "techniques";
  result.dataset = "corpus";
  result.name = figures.name;
  result.title = "title of " + figures.name;
  result.settings = figures.settings;
  result.model = {{"width", 512}};
  result.device = "CPU";
  result.batch = 64;
  result.row_tokens = 512;
  result.num_steps = 2;
  result.train_loss = 2.5;
  result.dev_loss = figures.dev_loss;
  result.seconds_per_step = figures.seconds;
  result.speed = 1000.0 / figures.seconds;
  result.memory = {{.after_forward = 10, .after_backward = 20, .peak = figures.peak / 2},
                   {.after_forward = 30, .after_backward = 5, .peak = figures.peak}};
  result.predicted = {.after_forward = 30, .after_backward = 20, .peak = figures.peak};
  return result;
}

Result repetition(Figures figures, int64_t seed) {
  figures.name = repetition_name(figures.name, seed);
  Result result = row(figures);
  result.seed = seed;
  return result;
}

std::string text_of(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += sentence + "\n";
  return text;
}

TEST(Results, SurviveTheirFiles) {
  const test::TempFolder folder;
  Result result = row({.name = "bf16"});
  result.largest = LargestBatch{.tried = 12, .predicted = 12, .peak_bytes = 99, .seconds = 0.5};
  result.decided = {"tier=block"};
  result.predicted_speed = 7.5;
  result.note = "no effect: \"x\"";
  result.kind = Suite::Kind::kSizes;
  result.micro_batch = 8;
  result.has_smallest_budget = true;
  write_result(folder.path(), result);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "corpus_bf16_memory.json"));
  const Result read = read_result(folder.path() / "corpus_bf16_metrics.json");
  EXPECT_EQ(metrics_json(read), metrics_json(result));
  EXPECT_EQ(read.memory, result.memory);
  EXPECT_EQ(read.mean_memory(),
            (StepMemory{.after_forward = 20, .after_backward = 12, .peak = 750}));
  EXPECT_EQ(read.max_memory(),
            (StepMemory{.after_forward = 30, .after_backward = 20, .peak = 1000}));
}

TEST(Results, DamagedFilesAreNamedAndLeftOut) {
  const test::TempFolder folder;
  write_result(folder.path(), row({.name = "bf16"}));
  folder.write("corpus_a_metrics.json", "{\"format_version\": 1");
  folder.write("corpus_b_metrics.json", "{\"format_version\": 2}");
  folder.write("corpus_c_metrics.json", "{\"format_version\": 1, \"suite\": 3}");
  std::vector<std::string> problems;
  const std::vector<Result> results = read_results(folder.path(), problems);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].name, "bf16");
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_PRED2(contains, problems[0], "corpus_a_metrics.json");
  EXPECT_PRED2(contains, problems[1], "format_version 2");
  EXPECT_PRED2(contains, problems[2], "corpus_c_metrics.json");
}

TEST(Comparison, IsRelativeToTheFirstCompletedRow) {
  Result failed = row({.name = "first"});
  failed.status = Result::Status::kFailed;
  const Comparison comparison =
      compare_results({failed, row({.name = "a", .seconds = 2.0, .peak = 4000}),
                       row({.name = "b", .seconds = 1.0, .peak = 1000})});
  EXPECT_EQ(comparison.baseline()->name, "a");
  EXPECT_EQ(comparison.speed_up(comparison.rows[2]), 2.0);
  EXPECT_EQ(comparison.memory_share(comparison.rows[2]), 0.25);
  EXPECT_EQ(comparison.speed_up(comparison.rows[0]), 0.0);
}

TEST(Comparison, SeedsGiveTheNoise) {
  const Figures first{.name = "baseline", .seconds = 1.0, .dev_loss = std::log(100.0)};
  Figures second = first;
  second.seconds = 1.1;
  second.dev_loss = std::log(101.0);
  const Comparison comparison =
      compare_results({row(first), repetition(second, 2), row({.name = "bf16", .seconds = 0.95})});
  ASSERT_EQ(comparison.rows.size(), 2u);
  ASSERT_TRUE(comparison.noise.has_value());
  EXPECT_EQ(comparison.noise->num_seeds, 2);
  EXPECT_NEAR(comparison.noise->seconds, 0.1 / 1.05, 1e-9);
  EXPECT_NEAR(comparison.noise->quality, 1.0 / 100.5, 1e-9);
  EXPECT_FALSE(comparison.differs_in_time(comparison.rows[0], comparison.rows[1]));
  EXPECT_NEAR(comparison.quality.at("baseline").mean, 100.5, 1e-9);
}

// Of two seeds of which one failed there is no noise; of three it is the whole range.
TEST(Comparison, NoiseIsTheRangeOfCompletedSeeds) {
  const Figures first{.name = "baseline", .dev_loss = std::log(10.0)};
  Figures less = first, more = first;
  less.dev_loss = std::log(9.0);
  more.dev_loss = std::log(11.0);
  const Comparison three = compare_results({row(first), repetition(less, 2), repetition(more, 3)});
  EXPECT_NEAR(three.noise->quality, 0.2, 1e-9);
  Result failed = row(first);
  failed.status = Result::Status::kFailed;
  EXPECT_FALSE(compare_results({failed, repetition(less, 2)}).noise.has_value());
}

// Twice the batch takes twice the time: no slower.
TEST(Comparison, OtherBatchesAreComparedByTheirSpeed) {
  Result twice = row({.name = "twice", .seconds = 2.0});
  twice.batch = 128;
  twice.speed = 1000.0;
  const Comparison comparison = compare_results({row({.name = "a"}), twice});
  EXPECT_EQ(comparison.speed_up(comparison.rows[1]), 1.0);
  Result elsewhere = row({.name = "elsewhere", .seconds = 0.1});
  elsewhere.device = "GPU";
  const Comparison other = compare_results({row({.name = "a"}), elsewhere});
  EXPECT_EQ(other.speed_up(other.rows[1]), 0.0);
}

TEST(Comparison, ResultsFollowTheOrderOfTheSuite) {
  const test::TempFolder folder;
  for (const char* name : {"zebra", "ant", "standard"})
    write_result(folder.path(), row({.name = name}));
  folder.write("suite.json", R"({"format_version": 1, "experiments": {"zebra": [], "ant": []}})");
  std::vector<std::string> problems, names;
  for (const Result& result : read_results(folder.path(), problems)) names.push_back(result.name);
  EXPECT_EQ(names, (std::vector<std::string>{"standard", "zebra", "ant"}));
}

TEST(Comparison, ChoosesRowsByName) {
  const std::vector<Result> results = {row({.name = "a"}), row({.name = "b"})};
  EXPECT_EQ(compare_results(results, {"b"}).rows.front().name, "b");
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { compare_results(results, {"aa"}); }),
               "no result of 'aa'");
  EXPECT_THROW(compare_results({}), DataError);
}

TEST(Comparison, ReportHasTablesNotesAndAnalysis) {
  Result small = row({.name = "window", .peak = 500});
  small.note = "no effect: the window of 512 tokens covers the whole sequence of 512";
  Result failed = row({.name = "huge"});
  failed.status = Result::Status::kDoesNotFit;
  failed.note = "does not fit by far";
  const std::string report =
      comparison_report(compare_results({row({.name = "a"}), small, failed}));
  for (const char* part :
       {"Suite techniques on corpus", "64 rows of 512 tokens", "Quality and speed", "does not fit",
        "no effect: the window", "does not fit by far", "title of window", "-50 %", "Analysis"})
    EXPECT_PRED2(contains, report, part);
}

// Rows of one network by micro-batch and in its smallest budget, measured on a pretended card.
std::vector<Result> rows_of_sizes() {
  Result micro;
  micro.suite = "sizes";
  micro.kind = Suite::Kind::kSizes;
  micro.dataset = "corpus";
  micro.name = "conformer-256_micro_batch_8";
  micro.settings = {"model.preset=conformer-256", "pretend_device=t4"};
  micro.decided = {"numerics=fp16", "optimizer.state=device", "tier=none"};
  micro.device = "t4 (pretended on NVIDIA H200)";
  micro.micro_batch = 8;
  micro.num_parameters = 24'700'000;
  micro.budget_bytes = int64_t{9} << 30;
  micro.predicted.peak = int64_t{8} << 30;
  micro.memory = {{.peak = int64_t{8} << 30}};
  micro.predicted_speed = 1217.0;
  micro.speed = 1100.0;
  Result least = micro;
  least.name = "conformer-256_smallest_budget";
  least.micro_batch = 0;
  least.has_smallest_budget = true;
  least.budget_bytes = int64_t{2} << 30;
  least.memory = {};
  least.speed = 0.0;
  return {micro, least};
}

// The terminal, the text report, the page and JSON have the same figures, and name the card that
// was pretended.
TEST(Comparison, SizesHaveTheSameFiguresEverywhere) {
  const Comparison comparison = compare_results(rows_of_sizes());
  std::string terminal;
  for (const report::DataTable& table : tables_of(comparison))
    terminal += report::terminal_text(table, 80);
  for (const std::string& text :
       {terminal, comparison_report(comparison), comparison_page(comparison).to_html()})
    for (const char* part : {"24.7 M", "9.00 GiB", "8.00 GiB", "2.00 GiB", "1,217x", "1,100x"})
      EXPECT_PRED2(contains, text, part);
  EXPECT_EQ(devices_of(comparison), "t4 (pretended on NVIDIA H200)");
  for (const std::string& text :
       {comparison_report(comparison), comparison_page(comparison).to_html()})
    EXPECT_PRED2(contains, text, "t4 (pretended on NVIDIA H200)");
  const nlohmann::json json = comparison_json(comparison)["experiments"];
  EXPECT_EQ(json[0]["micro_batch"], 8);
  EXPECT_EQ(json[0]["budget_bytes"], int64_t{9} << 30);
  EXPECT_EQ(json[1]["has_smallest_budget"], true);
  EXPECT_EQ(json[1]["device"], "t4 (pretended on NVIDIA H200)");
  std::istringstream lines(terminal);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(report::display_width(line), 80) << line;
}

TEST(Comparison, NoteOfAllRowsIsListedOnce) {
  std::vector<Result> rows = rows_of_sizes();
  for (Result& row : rows) row.note = "not measured: no data";
  EXPECT_EQ(tables_of(compare_results(rows)).back().rows.size(), 1u);
  rows.back().note = "another";
  EXPECT_EQ(tables_of(compare_results(rows)).back().rows.size(), 2u);
}

TEST(Comparison, PageHasItsFigures) {
  Result small = row({.name = "window", .peak = 500});
  small.largest = LargestBatch{.tried = 12, .predicted = 12, .peak_bytes = 99, .seconds = 0.5};
  Result failed = row({.name = "huge"});
  failed.status = Result::Status::kDoesNotFit;
  failed.note = "does not fit by <far>";
  const std::string html =
      comparison_page(compare_results({row({.name = "a"}), small, failed})).to_html();
  EXPECT_EQ(test::XmlCheck::problem_of(html), "");
  for (const char* part :
       {"Suite techniques", "Memory of a step", "Speed against memory", "Quality against memory",
        "Largest batch", "does not fit by &lt;far&gt;", "-50 %"})
    EXPECT_PRED2(contains, html, part);
  EXPECT_FALSE(contains(html, "http"));
}

TEST(Analysis, IsSilentWithinTheNoise) {
  const Figures first{.name = "baseline", .seconds = 1.0, .peak = 1000};
  Figures second = first;
  second.seconds = 1.2;
  // 10 % faster, within the noise of 18 %.
  const std::string text = text_of(analyse(compare_results(
      {row(first), repetition(second, 2), row({.name = "other", .seconds = 0.9, .peak = 400})})));
  EXPECT_PRED2(contains, text, "Most effective for memory: other");
  EXPECT_PRED2(contains, text, "60 % less than baseline");
  EXPECT_FALSE(contains(text, "Fastest"));
  EXPECT_FALSE(contains(text, "If time is the limit"));
  EXPECT_PRED2(contains, text, "If neither may suffer: other");
}

TEST(Analysis, ExplainsWhatIsBeyondTheNoise) {
  const Figures first{.name = "baseline", .seconds = 1.0, .peak = 1000};
  Figures second = first;
  second.seconds = 1.01;
  const std::vector<std::string> half = {"numerics=bf16-exact", "tier=none",
                                         "model.attention=plain"};
  const std::vector<std::string> again = {"numerics=fp32", "tier=block", "model.attention=plain"};
  const std::string text = text_of(analyse(compare_results(
      {row(first), repetition(second, 2),
       row({.name = "bf16", .seconds = 0.5, .peak = 600, .settings = half}),
       row({.name = "recompute", .seconds = 1.3, .peak = 300, .settings = again})})));
  EXPECT_PRED2(contains, text, "Fastest: bf16, 2.00 times as fast as baseline");
  EXPECT_PRED2(contains, text, "Why: 16-bit activations take half of the bytes");
  EXPECT_PRED2(contains, text, "and is 2.00 times as fast");
  EXPECT_PRED2(contains, text, "Slower than baseline: recompute (0.77x), because blocks are");
  EXPECT_PRED2(contains, text, "If memory is the limit: recompute.");
  EXPECT_PRED2(contains, text, "If the arithmetic must not change: recompute, 70 % less memory");
  EXPECT_PRED2(contains, text, "If neither may suffer: bf16");
}

// Steps that differ much among themselves decide nothing.
TEST(Analysis, IsSilentWhereStepsAreUnsteady) {
  const Figures first{.name = "baseline", .seconds = 1.0, .peak = 1000};
  std::vector<Result> results = {row(first), repetition(first, 2),
                                 row({.name = "other", .seconds = 0.8, .peak = 400})};
  EXPECT_PRED2(contains, text_of(analyse(compare_results(results))), "Fastest: other");
  for (Result& result : results) result.seconds_error = 0.2 * result.seconds_per_step;
  EXPECT_FALSE(contains(text_of(analyse(compare_results(results))), "Fastest"));
}

TEST(Analysis, OfOneRowComparesNothing) {
  EXPECT_PRED2(contains, text_of(analyse(compare_results({row({.name = "a"})}))),
               "Only a was completed");
}

// The standard run may be an estimate of memory alone: nothing is said of its speed.
TEST(Analysis, OfLimitsKnowsRowsWithoutSpeed) {
  Result standard;
  standard.kind = Suite::Kind::kLimits;
  standard.suite = "limits";
  standard.name = "standard";
  standard.predicted.peak = 1000;
  Result mine = standard;
  mine.name = "accumulation";
  mine.memory = {{.peak = 500}};
  mine.seconds_per_step = 1.0;
  mine.speed = 10.0;
  mine.dev_wer = 0.25;
  const Comparison comparison = compare_results({standard, mine});
  EXPECT_EQ(comparison.memory_share(comparison.rows[1]), 0.5);
  EXPECT_EQ(comparison.speed_up(comparison.rows[1]), 0.0);
  const std::string text = text_of(analyse(comparison));
  EXPECT_PRED2(contains, text, "Most effective for memory: accumulation");
  EXPECT_FALSE(contains(text, "Slower"));
  EXPECT_FALSE(contains(text, "Fastest"));
  EXPECT_PRED2(contains, report::terminal_text(tables_of(comparison).front(), 200), "25.00 %");
}

}  // namespace
}  // namespace sotto::lab
