// The charts as SVG: well-formed for any name, and readable.
#include "sotto/report/svg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "sotto/report/bar_chart.h"
#include "sotto/report/line_chart.h"
#include "sotto/report/scatter_chart.h"
#include "sotto/report/timeline_chart.h"
#include "support/thrown.h"
#include "support/xml_check.h"

namespace sotto::report {
namespace {

using test::contains;

constexpr const char* kHostile = "<a href=\"x\">& &b;\x01 'run' \xFF ü";
const double kNothing = std::nan("");

Figure figure_of(Drawing drawing) {
  return {.title = kHostile, .description = kHostile, .drawing = std::move(drawing)};
}

void expect_well_formed(Drawing drawing) {
  const Figure figure = figure_of(std::move(drawing));
  EXPECT_EQ(test::XmlCheck::problem_of(inline_svg(figure)), "");
  EXPECT_EQ(test::XmlCheck::problem_of(svg_file(figure)), "");
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(XmlCheck, FindsProblems) {
  EXPECT_EQ(test::XmlCheck::problem_of("<a b=\"c\"><d/>&lt;</a>\n"), "");
  for (const char* text : {"<a>", "<a></b>", "<a b=c></a>", "<a b=\"1\" b=\"2\"/>", "<a>&x;</a>",
                           "<a/><b/>", "<a b=\"<\"/>", "text", "<a/>text", "<a", "</a>"})
    EXPECT_NE(test::XmlCheck::problem_of(text), "") << text;
}

TEST(Svg, ChartsAreWellFormedForAnyName) {
  expect_well_formed(draw(LineChart{
      .x = {.title = kHostile},
      .y = {.title = kHostile},
      .series = {{.name = kHostile, .x = {1, 2}, .y = {3, 4}}, {.name = "b", .x = {1}, .y = {2}}},
      .limits = {{.name = kHostile, .value = 3.5}},
      .marks = {{.name = kHostile, .x = {1.5}}}}));
  expect_well_formed(draw(BarChart{.value = {.title = kHostile},
                                   .series = {kHostile, "b"},
                                   .rows = {{.name = kHostile, .values = {1.0, kNothing}}},
                                   .limits = {{.name = kHostile, .value = 0.5}}}));
  expect_well_formed(draw(ScatterChart{.points = {{.x = 1, .y = 2, .name = kHostile}},
                                       .columns = {{.name = kHostile, .value = 1.0}}}));
  expect_well_formed(draw(TimelineChart{.series = {kHostile, "b"},
                                        .moments = {{.values = {1, 2}, .band = kHostile}},
                                        .peak = kHostile}));
}

// Nothing to draw, one point, values that are not finite: a chart is still a chart.
TEST(Svg, ChartsOfLittleDataAreWellFormed) {
  const double infinity = std::numeric_limits<double>::infinity();
  expect_well_formed(draw(LineChart{}));
  expect_well_formed(draw(LineChart{
      .y = {.is_log = true}, .series = {{.name = "a", .x = {1, 2}, .y = {0.0, -infinity}}}}));
  expect_well_formed(draw(BarChart{}));
  expect_well_formed(draw(ScatterChart{}));
  expect_well_formed(draw(TimelineChart{.moments = {{.values = {0.0}, .band = ""}}}));
  const std::string svg =
      draw(LineChart{.series = {{.name = "a", .x = {1, 2, 3}, .y = {infinity, kNothing, 1e300}}}})
          .body();
  EXPECT_FALSE(contains(svg, "nan")) << svg;
  EXPECT_FALSE(contains(svg, "inf")) << svg;
  EXPECT_TRUE((LineChart{.series = {{.name = "a", .x = {1}, .y = {kNothing}}}}.is_empty()));
}

TEST(Svg, ACurveIsInterruptedWhereItIsNotFinite) {
  std::vector<double> x, y;
  for (int i = 0; i < 40; ++i) {
    x.push_back(i);
    y.push_back(i == 20 ? kNothing : 1.0);
  }
  EXPECT_EQ(count(draw(LineChart{.series = {{.name = "a", .x = x, .y = y}}}).body(), "<polyline"),
            2u);
}

// Long runs are drawn with fewer points, and the highest is among them.
TEST(Svg, PeaksOfLongCurvesAreKept) {
  std::vector<double> x, y;
  for (int i = 0; i < 20'000; ++i) {
    x.push_back(i);
    y.push_back(i == 12'345 ? 100.0 : 1.0);
  }
  const std::string svg = draw(LineChart{.series = {{.name = "a", .x = x, .y = y}}}).body();
  EXPECT_LT(svg.size(), 40'000u);
  // The top of the plot.
  EXPECT_TRUE(contains(svg, ",26 ")) << svg.substr(0, 2000);
}

TEST(Svg, SeriesDifferByMoreThanColour) {
  LineChart chart;
  for (const char* name : {"a", "b", "c", "d", "e", "f"})
    chart.series.push_back({.name = name, .x = {1, 2}, .y = {1, 2}});
  const std::string svg = draw(chart).body();
  for (const char* dashes : {"d0", "d1", "d2", "d3", "d4", "d5"})
    EXPECT_TRUE(contains(svg, dashes)) << dashes;
  for (const char* marker : {"<circle", "<polygon", "ring"}) EXPECT_TRUE(contains(svg, marker));
}

TEST(Svg, StacksEndAtTheirTotal) {
  const std::string svg = draw(BarChart{.series = {"a", "b"},
                                        .rows = {{.name = "x", .values = {1.0, 2.25}}},
                                        .is_stacked = true})
                              .body();
  EXPECT_TRUE(contains(svg, ">3.25</text>")) << svg;
  EXPECT_TRUE(contains(svg, "<title>x, b: 2.25</title>")) << svg;
}

// Boxes of the texts with a class, as their widths are estimated.
std::vector<Box> text_boxes(const std::string& svg, const std::string& classes) {
  const std::regex text("<text x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" class=\"" + classes +
                        "\">([^<]*)</text>");
  std::vector<Box> boxes;
  for (std::sregex_iterator at(svg.begin(), svg.end(), text), end; at != end; ++at)
    boxes.push_back({.x = std::stod((*at)[1]),
                     .y = std::stod((*at)[2]) - 9.0,
                     .width = text_width((*at)[3].str(), kFontSize),
                     .height = 10.0});
  return boxes;
}

TEST(Svg, NamesOfPointsDoNotCoverEachOther) {
  ScatterChart chart{.x = {.title = "memory"}, .y = {.title = "WER"}, .points = {}};
  for (int i = 0; i < 12; ++i)
    chart.points.push_back({.x = 100.0 + 0.4 * (i % 4),
                            .y = 20.0 + 0.2 * (i % 3),
                            .name = "experiment_" + std::to_string(i)});
  chart.points.push_back({.x = 0.0, .y = 0.0, .name = "alone"});
  const std::vector<Box> boxes = text_boxes(draw(chart).body(), "halo");
  ASSERT_EQ(boxes.size(), 13u);
  for (size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_GE(boxes[i].x, 0.0);
    EXPECT_LE(boxes[i].right(), chart.width);
    for (size_t j = i + 1; j < boxes.size(); ++j)
      EXPECT_FALSE(boxes[i].overlaps(boxes[j])) << i << " and " << j;
  }
}

TEST(Svg, NamesOfLimitsDoNotCoverEachOther) {
  const std::string svg = draw(LineChart{.series = {{.name = "a", .x = {1, 2}, .y = {0, 10}}},
                                         .limits = {{.name = "budget", .value = 9.0},
                                                    {.name = "planned", .value = 8.9},
                                                    {.name = "measured", .value = 8.8}}})
                              .body();
  const std::vector<Box> boxes = text_boxes(svg, "halo");
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_FALSE(boxes[0].overlaps(boxes[1]));
  EXPECT_FALSE(boxes[0].overlaps(boxes[2]));
  EXPECT_FALSE(boxes[1].overlaps(boxes[2]));
}

TEST(Svg, TextsAreShortenedToTheirRoom) {
  EXPECT_EQ(fit_text("short", 12.0, 100.0), "short");
  const std::string text = fit_text("größere Mengen an Text", 12.0, 60.0);
  EXPECT_TRUE(text.ends_with("…")) << text;
  EXPECT_LE(text_width(text, 12.0), 62.0);
}

TEST(Svg, AFileNeedsNothingElse) {
  const std::string svg =
      svg_file(figure_of(draw(BarChart{.rows = {{.name = "a", .values = {1.0}}}})));
  EXPECT_TRUE(contains(svg, "prefers-color-scheme:dark"));
  EXPECT_EQ(count(svg, "http"), 1u) << "only the name space";
}

TEST(Svg, AverageIgnoresWhatIsNotFinite) {
  EXPECT_EQ(moving_average({1.0, kNothing, 3.0}, 3), (std::vector<double>{1.0, 2.0, 3.0}));
  EXPECT_TRUE(std::isnan(moving_average({kNothing}, 3).front()));
}

}  // namespace
}  // namespace sotto::report
