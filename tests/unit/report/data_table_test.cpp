#include "sotto/report/data_table.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "support/xml_check.h"

namespace sotto::report {
namespace {

DataTable example_table() {
  return {
      .name = "runs",
      .title = "Runs",
      .columns = {{.key = "run", .align = Align::kLeft},
                  {.key = "peak_bytes", .title = "peak"},
                  {.key = "wer", .title = "WER"}},
      .rows = {{cell_of("a, \"b\" | c <d>"), cell_of(1536.0, Unit::kBytes),
                cell_of(0.142, Unit::kShare)},
               {cell_of("x"), cell_of(1024.0, Unit::kBytes), cell_of(std::nan(""), Unit::kShare)}}};
}

TEST(DataTable, HasTextsForPeople) {
  EXPECT_EQ(terminal_text(example_table(), 100),
            "run                 peak     WER\n"
            "────────────────────────────────\n"
            "a, \"b\" | c <d>  1.50 KiB  14.2 %\n"
            "x               1.00 KiB       -\n");
  EXPECT_EQ(markdown_text(example_table()),
            "## Runs\n\n"
            "| run | peak | WER |\n"
            "| --- | ---: | ---: |\n"
            "| a, \"b\" \\| c <d> | 1.50 KiB | 14.2 % |\n"
            "| x | 1.00 KiB | - |\n");
}

TEST(DataTable, HasExactValuesForPrograms) {
  EXPECT_EQ(csv_text(example_table()),
            "run,peak_bytes,wer\n"
            "\"a, \"\"b\"\" | c <d>\",1536,0.142\n"
            "x,1024,\n");
  const nlohmann::ordered_json json = rows_json(example_table());
  EXPECT_EQ(json[0]["peak_bytes"], 1536);
  EXPECT_EQ(json[0]["wer"], 0.142);
  EXPECT_TRUE(json[1]["wer"].is_null());
}

TEST(DataTable, IsWellFormedInAPage) {
  const std::string html = html_text(example_table());
  EXPECT_EQ(test::XmlCheck::problem_of(html), "") << html;
  EXPECT_NE(html.find("a, &quot;b&quot; | c &lt;d&gt;"), std::string::npos);
}

TEST(DataTable, ColumnsCanBeSelected) {
  const DataTable table =
      select_columns(example_table(), std::array<std::string_view, 3>{"wer", "unknown", "run"});
  EXPECT_EQ(csv_text(table), "wer,run\n0.142,\"a, \"\"b\"\" | c <d>\"\n,x\n");
}

}  // namespace
}  // namespace sotto::report
