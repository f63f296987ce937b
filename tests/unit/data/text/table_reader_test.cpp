#include "sotto/data/text/table_reader.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "support/data_reader_checks.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;
using Cells = std::vector<std::string>;

struct Content {
  Cells columns;
  std::vector<Cells> rows;
  // "3: what is wrong"
  std::vector<std::string> faults;
};

Content read(const std::string& text, const char* name = "a.csv") {
  const TempFolder folder;
  TableReader table(folder.write(name, text));
  Content content{.columns = table.columns(), .rows = {}, .faults = {}};
  while (const std::optional<TableRow> row = table.next()) {
    if (row->fault.empty()) {
      content.rows.push_back(row->cells);
    } else {
      content.faults.push_back(std::to_string(row->line) + ": " + row->fault);
    }
  }
  return content;
}

TEST(TableReader, FindsTheDelimiter) {
  for (const char* text :
       {"a,b,c\n1,2,3\n", "a\tb\tc\n1\t2\t3\n", "a;b;c\n1;2;3\n", "a|b|c\n1|2|3\n"}) {
    const Content content = read(text);
    EXPECT_EQ(content.columns, (Cells{"a", "b", "c"})) << text;
    EXPECT_EQ(content.rows, (std::vector<Cells>{{"1", "2", "3"}})) << text;
  }
  EXPECT_EQ(read("a\n1\n").rows, (std::vector<Cells>{{"1"}}));
}

TEST(TableReader, SkipsByteOrderMarkCarriageReturnsAndBlankLines) {
  const Content content = read("\xEF\xBB\xBF path ,text\r\n\r\na.wav,ö\r\n\nb.wav,\r\nc.wav,x");
  EXPECT_EQ(content.columns, (Cells{"path", "text"}));
  EXPECT_EQ(content.rows, (std::vector<Cells>{{"a.wav", "ö"}, {"b.wav", ""}, {"c.wav", "x"}}));
  EXPECT_TRUE(content.faults.empty());
}

TEST(TableReader, QuotedFields) {
  const Content content = read(
      "a,b\n\"x, y\",\"he said \"\"no\"\"\"\n\"two\nlines\",\"and\r\nmore\"\n\"\",5\" "
      "long\nlast,\"\"\n");
  EXPECT_EQ(content.rows, (std::vector<Cells>{{"x, y", "he said \"no\""},
                                              {"two\nlines", "and\r\nmore"},
                                              {"", "5\" long"},
                                              {"last", ""}}));
  EXPECT_TRUE(content.faults.empty());
}

// As written by Common Voice: literal quotes, and quotes around a whole field.
TEST(TableReader, QuotesInATabSeparatedTable) {
  const Content content = read(
      "a\tb\n\"Stop\" he said\tx\n\"\"\"Stop\"\" he said\"\ty\n\"Stop\" and \"go\"\tz\n\"\tw\n",
      "a.tsv");
  EXPECT_EQ(content.rows, (std::vector<Cells>{{"\"Stop\" he said", "x"},
                                              {"\"Stop\" he said", "y"},
                                              {"\"Stop\" and \"go\"", "z"},
                                              {"\"", "w"}}));
}

TEST(TableReader, SkipsBrokenRows) {
  const Content content = read("a,b\n1\n1,2,3\n\"1\"x,2\n\"5\n\n5\",6\n7\n8,9\n");
  EXPECT_EQ(content.rows, (std::vector<Cells>{{"5\n\n5", "6"}, {"8", "9"}}));
  EXPECT_EQ(content.faults,
            (Cells{"2: 1 fields, expected 2 as in the first row",
                   "3: 3 fields, expected 2 as in the first row", "4: 'x' after a closing quote",
                   "8: 1 fields, expected 2 as in the first row"}));
  const Content open = read("a,b\n\"never closed,2\n3,4\n");
  EXPECT_EQ(open.faults, (Cells{"2: an unclosed quote"}));
  EXPECT_EQ(open.rows, (std::vector<Cells>{{"3", "4"}}));
  EXPECT_EQ(read("a,b\n\xff,2\n3,4\n").faults, (Cells{"2: not UTF-8"}));
}

TEST(TableReader, RefusesNonTables) {
  EXPECT_PRED2(contains, message_of<DataError>([] { read(""); }), "a.csv: no rows");
  EXPECT_PRED2(contains, message_of<DataError>([] { read("\n\n"); }), "a.csv: no rows");
  EXPECT_PRED2(contains, message_of<DataError>([] { read("a,\"b\n"); }),
               "line 1: an unclosed quote");
  EXPECT_PRED2(contains, message_of<DataError>([] { TableReader("no.csv"); }), "No such file");
}

// Random damage with a fixed seed: every row has its cells or a fault, and line numbers only
// increase.
TEST(TableReader, SurvivesAnything) {
  const TempFolder folder;
  const std::string good = "a,b,c\n1,\"two, \"\"x\"\"\",3\r\n\"4\n4\",,\"\"\n\xC3\xB6,7,8\n";
  const std::string parts = "\"\"\"\n\r,\t;|x\xff";
  int64_t num_faults = 0;
  for (uint64_t round = 0; round < 3'000; ++round) {
    const RandomStream stream({.seed = 1, .step = round});
    std::string bytes = good;
    for (uint64_t i = 0; i < 4; ++i) {
      const size_t at = stream.bits(3 * i) % bytes.size();
      const char part = parts[stream.bits(3 * i + 1) % parts.size()];
      switch (stream.bits(3 * i + 2) % 3) {
        case 0: bytes[at] = part; break;
        case 1: bytes.insert(at, 1, part); break;
        default: bytes.erase(at, 1);
      }
    }
    try {
      num_faults += test::check_table(folder.write("a.csv", bytes));
    } catch (const DataError& error) {
      ASSERT_PRED2(contains, error.what(), "a.csv") << round;
    } catch (const test::BrokenPromise& broken) {
      FAIL() << broken.what() << " in round " << round;
    }
  }
  EXPECT_GT(num_faults, 1'000);
}

}  // namespace
}  // namespace sotto::data
