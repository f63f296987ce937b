// The pages of reports in a browser: no error, the figures of the run, and texts that neither cover
// each other nor leave their chart, on wide and on narrow screens.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>

#include "sotto/core/units.h"
#include "support/browser.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

// Lists what a reader could not read: texts that cover each other or are cut off, a page wider than
// its window. Reports have no script; this one is added to a copy of them.
constexpr const char* kProbe = R"js(<script>
  const found = [];
  if (document.documentElement.scrollWidth > window.innerWidth) found.push("wider than the window");
  for (const svg of document.querySelectorAll("svg.chart")) {
    const room = svg.getBoundingClientRect();
    if (room.width == 0) continue;
    const chart = svg.querySelector("title").textContent + ": ";
    const texts = [...svg.querySelectorAll("text")].map(e => [e.textContent, e.getBoundingClientRect()]);
    texts.forEach(([a, box], i) => {
      if (box.left < room.left - 1 || box.right > room.right + 1 ||
          box.top < room.top - 1 || box.bottom > room.bottom + 1)
        found.push(chart + "outside: " + a);
      // A font's boxes are higher than its letters.
      const pad = 0.2 * box.height;
      for (const [b, other] of texts.slice(i + 1))
        if (box.left < other.right - 1 && other.left < box.right - 1 &&
            box.top + pad < other.bottom - pad && other.top + pad < box.bottom - pad)
          found.push(chart + a + " covers " + b);
    });
  }
  document.body.setAttribute("data-probe", found.length ? found.join("; ") : "nothing");
</script></body>)js";

class BrowserTest : public TrainRuns {
 protected:
  void SetUp() override {
    const std::optional<std::string> program = find_browser();
    if (!program) GTEST_SKIP() << "no browser: apt-get install chromium, or tools/setup.sh check";
    browser_.emplace(*program);
  }

  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }

  // Opens the page as it is, then a copy with the probe, at both widths.
  std::string expect_readable(const std::string& page) {
    const std::string html = content_of(page);
    const size_t end = html.rfind("</body>");
    EXPECT_NE(end, std::string::npos);
    const fs::path probed =
        folder_.write("probed.html", html.substr(0, end) + kProbe + html.substr(end + 7));
    for (const int width : {500, 1400}) {
      const SeenPage seen = browser_->open(probed, width);
      EXPECT_TRUE(seen.console.empty()) << seen.console.front();
      EXPECT_NE(seen.elements.find("data-probe=\"nothing\""), std::string::npos)
          << width << ": " << probe_of(seen.elements);
    }
    const SeenPage seen = browser_->open(page, 1400);
    EXPECT_EQ(seen.exit_code, 0);
    EXPECT_TRUE(seen.console.empty()) << seen.console.front();
    return seen.elements;
  }

  static std::string probe_of(const std::string& elements) {
    std::smatch found;
    return std::regex_search(elements, found, std::regex("data-probe=\"([^\"]*)\""))
               ? found[1].str()
               : "no result";
  }

  static std::string figure_of(const std::string& elements, const std::string& key) {
    std::smatch found;
    const std::regex figure("data-figure=\"" + key + "\">([^<]*)<");
    return std::regex_search(elements, found, figure) ? found[1].str() : "no such figure";
  }

  std::optional<Browser> browser_;
};

// A browser that is found, and sees nothing wrong on a broken page, would prove nothing.
TEST_F(BrowserTest, ErrorsOfAPageAreSeen) {
  const SeenPage seen = browser_->open(
      folder_.write("broken.html",
                    "<!DOCTYPE html><html><body><script>broken();</script></body></html>"),
      800);
  EXPECT_FALSE(seen.console.empty());
}

TEST_F(BrowserTest, TheReportOfARunIsReadable) {
  const CommandResult trained = train("run", {"--set", "epochs=5"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const nlohmann::json summary = nlohmann::json::parse(trained.out);
  const CommandResult result = run_sotto({"report", at("run")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string elements = expect_readable(at("run/report.html"));
  EXPECT_EQ(figure_of(elements, "steps"), "30");
  EXPECT_EQ(figure_of(elements, "state"), "complete");
  EXPECT_EQ(figure_of(elements, "best_quality"),
            fmt::format("{:.1f} %", 100.0 * summary["best_wer"].get<double>()));
  const std::regex chart("<figure");
  EXPECT_GE(std::distance(std::sregex_iterator(elements.begin(), elements.end(), chart), {}), 10);
  EXPECT_TRUE(browser_->print(at("run/report.html")).starts_with("%PDF-"));
}

TEST_F(BrowserTest, AComparisonIsReadable) {
  ASSERT_EQ(train("short", {"--max-steps", "6"}).exit_code, 0);
  ASSERT_EQ(train("a_run_with_quite_a_long_name", {"--set", "numerics=bf16-exact"}).exit_code, 0);
  const CommandResult result = run_sotto(
      {"report", at("short"), at("a_run_with_quite_a_long_name"), "--out", at("comparison.html")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_readable(at("comparison.html"));
}

TEST_F(BrowserTest, ThePageOfAPlanIsReadable) {
  const CommandResult result =
      run_sotto({"plan", "--config", at("tiny.yaml"), "--out", at("planned"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string elements = expect_readable(at("planned/plan.html"));
  EXPECT_EQ(figure_of(elements, "budget_bytes"), "100 MiB");
}

TEST_F(BrowserTest, ThePageOfASuiteIsReadable) {
  const fs::path suite = folder_.write("mine.yaml",
                                       "name: recomputation\n"
                                       "settings:\n"
                                       "  model: {preset: tiny, layers: 2, width: 32, heads: 2}\n"
                                       "  effective_batch: 8\n"
                                       "matrix:\n"
                                       "  numerics: [fp32, bf16-exact]\n"
                                       "  tier: [none, block]\n");
  const CommandResult result = run_sotto(
      {"lab", "run", suite.string(), "--train", at("train.jsonl"), "--dev", at("dev.jsonl"),
       "--memory", "100MiB", "--max-steps", "3", "--out", at("results"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json rows = nlohmann::json::parse(result.out)["experiments"];
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const nlohmann::json& row : rows)
    least = std::min(least, row["memory"]["max"]["peak_bytes"].get<int64_t>());
  const std::string elements = expect_readable(at("results/report.html"));
  EXPECT_EQ(rows.size(), 4);
  EXPECT_EQ(figure_of(elements, "least_peak"), format_bytes(least));
}

}  // namespace
}  // namespace sotto::test
