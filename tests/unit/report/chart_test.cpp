#include "sotto/report/chart.h"

#include <gtest/gtest.h>

namespace sotto::report {
namespace {

TEST(Chart, DrawsValuesFromZeroToTheLargest) {
  const Chart chart{.values = {0.0, 4.0, 8.0, 6.5}, .stretches = {}, .top = "8 B"};
  EXPECT_EQ(chart.to_string(9),
            "8 B ┤  █\n"
            "    │  █▄\n"
            "    │  ██\n"
            "    │  ██\n"
            "    │ ███\n"
            "    │ ███\n"
            "    │ ███\n"
            "    │ ███\n"
            "  0 └────\n"
            "\n");
}

TEST(Chart, ShowsTheLargestValuePerColumn) {
  const Chart chart{.values = {1.0, 8.0, 2.0, 1.0, 0.0, 4.0}, .stretches = {}, .top = "8"};
  const std::string text = chart.to_string(6);
  EXPECT_EQ(text.substr(0, text.find('\n')), "8 ┤█");
  EXPECT_NE(text.find("  │█ █\n"), std::string::npos);
}

TEST(Chart, LabelsStretchesThatHaveRoom) {
  const Chart chart{.values = std::vector<double>(20, 1.0),
                    .stretches = {{.name = "forward", .num_values = 9},
                                  {.name = "long name", .num_values = 2},
                                  {.name = "end", .num_values = 9}},
                    .top = "1"};
  const std::string text = chart.to_string(23);
  EXPECT_EQ(text.substr(text.rfind('\n', text.size() - 2) + 1), "   forward    end\n");
}

TEST(Chart, IsEmptyWithoutValues) {
  EXPECT_EQ(Chart{}.to_string(), "");
  const Chart flat{.values = {0.0, 0.0}, .stretches = {}, .top = "0 B"};
  EXPECT_EQ(flat.to_string(8).substr(0, 7), "0 B ┤");
}

}  // namespace
}  // namespace sotto::report
