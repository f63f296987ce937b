// Rules of texts as far as ASCII goes, which every build can do; unicode_test.cpp has the rest.
#include "sotto/data/text/text_rules.h"

#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;

TEST(TextRules, LeavePlainWordsUnchanged) {
  const TextRules rules;
  for (const char* text : {"", "a", "enter seven", "Rubout G M E F three nine", "it's 4 o'clock!"})
    EXPECT_EQ(rules.apply(text), text);
}

TEST(TextRules, CollapseWhitespace) {
  const TextRules rules{.unicode = UnicodeForm::kNone};
  EXPECT_EQ(rules.apply("  one\t two\r\n\nthree "), "one two three");
  EXPECT_EQ(rules.apply(" \n "), "");
  // No-break, ideographic and line separators count; a zero-width space is none to Unicode.
  EXPECT_EQ(rules.apply("a\u00A0b\u3000c\u2028d\u200Be"), "a b c d\u200Be");
}

TEST(TextRules, ChangeCase) {
  EXPECT_EQ(TextRules{.letter_case = LetterCase::kLower}.apply("Enter SEVEN @AZ[`"),
            "enter seven @az[`");
  EXPECT_EQ(TextRules{.letter_case = LetterCase::kUpper}.apply("Enter seven `az{"),
            "ENTER SEVEN `AZ{");
}

TEST(TextRules, RemovePunctuation) {
  const TextRules rules{.punctuation = Punctuation::kRemove};
  EXPECT_EQ(rules.apply("Well, don't -- \"stop\"!"), "Well dont stop");
  EXPECT_EQ(rules.apply("left/right (two-thirds) 50% <b>"), "left right two thirds 50 b");
  EXPECT_EQ(rules.apply("?!"), "");
  const TextRules keeping{.punctuation = Punctuation::kRemove, .keep_characters = "'-"};
  EXPECT_EQ(keeping.apply("Well, don't -- two-thirds!"), "Well don't -- two-thirds");
}

TEST(TextRules, AreReadFromConfig) {
  const test::TempFolder folder;
  const auto read = [&](const std::string& text) {
    return read_config<TextRules>(folder.write("rules.yaml", "format_version: 1\n" + text));
  };
  EXPECT_EQ(read(""), TextRules{});
  const TextRules rules =
      read("unicode: none\ncase: lower\npunctuation: remove\nkeep_characters: \"'\"\n");
  EXPECT_EQ(rules, (TextRules{.unicode = UnicodeForm::kNone,
                              .letter_case = LetterCase::kLower,
                              .punctuation = Punctuation::kRemove,
                              .keep_characters = "'"}));
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { read("case: title\n"); }),
               "one of keep, lower, upper");
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { read("keep_characters: \"'\"\n"); }),
               "keep_characters with punctuation: keep");
}

TEST(TextRules, RefuseInvalidUtf8) {
  EXPECT_PRED2(contains, message_of<DataError>([] { TextRules{}.apply("gr\xFC"); }),
               "bytes that are not UTF-8");
}

}  // namespace
}  // namespace sotto::data
