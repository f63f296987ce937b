#include "sotto/report/table.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "sotto/core/error.h"

namespace sotto::report {
namespace {

TEST(Table, AlignsTextLeftAndNumbersRight) {
  Table table({{"layer"}, {"bytes", Align::kRight}, {"tier"}});
  table.add_row({"encoder.0", "12", "none"});
  table.add_row({"head", "3456", ""});
  EXPECT_EQ(table.to_string(),
            "layer      bytes  tier\n"
            "──────────────────────\n"
            "encoder.0     12  none\n"
            "head        3456\n");
}

TEST(Table, HasNoHeaderWithoutTitles) {
  Table table({{}, {}});
  table.add_row({"CPU", "fast"});
  table.add_row({"cores", "2"});
  EXPECT_EQ(table.to_string(),
            "CPU    fast\n"
            "cores  2\n");
}

TEST(Table, RulesAreOnlyBetweenSections) {
  Table table({{"a"}, {"b"}});
  table.add_rule();
  table.add_row({"1", "2"});
  table.add_rule();
  table.add_rule();
  table.add_row({"3", "4"});
  table.add_rule();
  EXPECT_EQ(table.to_string(),
            "a  b\n"
            "────\n"
            "1  2\n"
            "────\n"
            "3  4\n");
}

TEST(Table, CountsScreenColumns) {
  Table table({{"name"}, {"n", Align::kRight}});
  table.add_row({"Zürich", "1"});
  table.add_row({"東京", "2"});
  EXPECT_EQ(table.to_string(),
            "name    n\n"
            "─────────\n"
            "Zürich  1\n"
            "東京    2\n");
}

TEST(Table, CutsTheWidestTextColumnToFit) {
  Table table({{"short"}, {"long"}, {"bytes", Align::kRight}});
  table.add_row({"ab", "0123456789abcdef", "123456789"});
  EXPECT_EQ(table.to_string(26),
            "short  long          bytes\n"
            "──────────────────────────\n"
            "ab     0123456…  123456789\n");
  // Long columns are cut alike; none below four places, and numbers never.
  Table narrow({{"one"}, {"two"}, {"n", Align::kRight}});
  narrow.add_row({"aaaaaaaaaa", "bbbbbbbb", "12345678"});
  EXPECT_EQ(narrow.to_string(24),
            "one     two            n\n"
            "────────────────────────\n"
            "aaaaa…  bbbbb…  12345678\n");
  EXPECT_EQ(narrow.to_string(5),
            "one   two          n\n"
            "────────────────────\n"
            "aaa…  bbb…  12345678\n");
}

// A file or a pipe: readers need the whole text.
TEST(Table, IsNotCutWithoutATerminal) {
  const int standard_output = dup(STDOUT_FILENO);
  FILE* file = std::tmpfile();
  ASSERT_EQ(dup2(fileno(file), STDOUT_FILENO), STDOUT_FILENO);
  Table table({{"name"}, {"value"}});
  table.add_row({"key", std::string(3'000, 'x')});
  const std::string text = table.to_string();
  dup2(standard_output, STDOUT_FILENO);
  close(standard_output);
  std::fclose(file);
  EXPECT_EQ(display_width(text.substr(text.rfind("key"))), 3'007);  // the line end too
}

TEST(Table, FitsTheTerminal) {
  int terminal = -1;
  int end = -1;
  winsize size = {.ws_row = 24, .ws_col = 72, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(openpty(&terminal, &end, nullptr, nullptr, &size), 0);
  const int standard_output = dup(STDOUT_FILENO);
  dup2(end, STDOUT_FILENO);
  Table table({{"name"}, {"value"}});
  table.add_row({"key", std::string(300, 'x')});
  const std::string text = table.to_string();
  dup2(standard_output, STDOUT_FILENO);
  for (const int descriptor : {standard_output, terminal, end}) close(descriptor);
  EXPECT_EQ(display_width(text.substr(0, text.find('\n'))), 11);
  EXPECT_EQ(display_width(text.substr(text.rfind("key"))), 73);  // the line end too
}

TEST(Table, LineBreaksInACellAreHarmless) {
  Table table({{}, {}});
  table.add_row({"a\nb", "c\x1b[31m"});
  EXPECT_EQ(table.to_string(), "a b  c [31m\n");
}

TEST(Table, RowOfAnotherLengthIsAnInternalError) {
  Table table({{"a"}, {"b"}});
  EXPECT_THROW(table.add_row({"1"}), InternalError);
}

TEST(DisplayWidth, DecodesUtf8) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("äöü…"), 4);
  EXPECT_EQ(display_width("日本"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(display_width("\U0001F600"), 2);
  EXPECT_EQ(display_width("\xff\xc3"), 2);
  EXPECT_EQ(display_width("\xc3x"), 2);
}

TEST(Shorten, NeverCutsInsideACharacter) {
  EXPECT_EQ(shorten("äöü", 3), "äöü");
  EXPECT_EQ(shorten("äöüß", 3), "äö…");
  EXPECT_EQ(shorten("日本語", 4), "日…");
  EXPECT_EQ(shorten("abc", 1), "…");
  EXPECT_EQ(shorten("abc", 0), "");
}

}  // namespace
}  // namespace sotto::report
