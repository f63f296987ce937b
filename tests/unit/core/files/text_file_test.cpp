#include "sotto/core/files/text_file.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

std::string text_refusal(const std::filesystem::path& path) {
  return message_of<DataError>([&] { read_text_file(path); });
}

TEST(ReadTextFile, StripsTheByteOrderMark) {
  const TempFolder folder;
  EXPECT_EQ(read_text_file(folder.write("a.txt", "gr\xC3\xBC\xC3\x9F\n")), "gr\xC3\xBC\xC3\x9F\n");
  EXPECT_EQ(read_text_file(folder.write("b.txt",
                                        "\xEF\xBB\xBF"
                                        "a: 1")),
            "a: 1");
}

TEST(ReadTextFile, ReportsWhyItFails) {
  const TempFolder folder;
  EXPECT_PRED2(contains, text_refusal(folder.path() / "no.yaml"), "no.yaml: No such file");
  EXPECT_PRED2(contains, text_refusal(folder.path()), "it is a folder");
  EXPECT_PRED2(contains, text_refusal(folder.write("empty", "")), "the file is empty");
  EXPECT_PRED2(contains, text_refusal(folder.write("nul", std::string("a\0b", 3))), "binary");
  EXPECT_PRED2(contains, text_refusal(folder.write("latin", "gr\xFC\xDF")), "not UTF-8");
  const std::string large(size_t{17} << 20, 'a');
  EXPECT_PRED2(contains, text_refusal(folder.write("large", large)), "larger than 16 MiB");
}

TEST(IsUtf8, AcceptsSequencesOfEveryLength) {
  for (const char* text :
       {"", "a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
}

TEST(IsUtf8, RefusesMalformedText) {
  for (const char* text :
       {"\x80", "\xBF", "\xC0\xAF", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x80\xAF", "\xE2\x82",
        "\xED\xA0\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

}  // namespace
}  // namespace sotto
