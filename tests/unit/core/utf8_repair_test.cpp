// Bytes that are not UTF-8, as text.
#include "sotto/core/utf8_repair.h"

#include <gtest/gtest.h>

#include "sotto/core/files/text_file.h"

namespace sotto {
namespace {

TEST(Utf8Repair, KeepsValidText) {
  for (const std::string text : {"", "plain", "żółć", "\xF0\x9F\x98\x80", "\xEF\xBF\xBF"})
    EXPECT_EQ(repaired_utf8(text), text);
  const std::string zero("a\0b", 3);
  EXPECT_EQ(repaired_utf8(zero), zero);
}

// The examples of the Unicode standard, chapter 3.9, tables 3-8 to 3-11.
TEST(Utf8Repair, ReplacesEachMaximalPart) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(repaired_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(repaired_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(repaired_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(repaired_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

TEST(Utf8Repair, EndsInTheMiddleOfACharacter) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(repaired_utf8("ab\xC5"), "ab" + r);
  EXPECT_EQ(repaired_utf8("ab\xF0\x9F\x98"), "ab" + r);
}

// Whatever two or three bytes there are, the result is UTF-8, and ASCII stays.
TEST(Utf8Repair, AlwaysReturnsUtf8) {
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      const std::string bytes = {static_cast<char>(first), static_cast<char>(second), 'x'};
      const std::string text = repaired_utf8(bytes);
      ASSERT_TRUE(is_utf8(text)) << first << " " << second;
      ASSERT_TRUE(text.ends_with('x')) << first << " " << second;
    }
  }
}

}  // namespace
}  // namespace sotto
