// Rules of texts beyond ASCII, in a build with utf8proc.
#include "sotto/data/text/unicode.h"

#include <gtest/gtest.h>

#include "sotto/data/text/text_rules.h"

namespace sotto::data {
namespace {

const TextRules kLowered{.letter_case = LetterCase::kLower};
const TextRules kUpper{.letter_case = LetterCase::kUpper};
const TextRules kNoMarks{.punctuation = Punctuation::kRemove};
const TextRules kAll{.unicode = UnicodeForm::kNfkc,
                     .letter_case = LetterCase::kLower,
                     .punctuation = Punctuation::kRemove};

TEST(Unicode, ComposesCharacters) {
  EXPECT_EQ(TextRules{}.apply("z\u0307o\u0301łty"), "żółty");
  EXPECT_EQ(TextRules{.unicode = UnicodeForm::kNone}.apply("z\u0307"), "z\u0307");
  // Another way to write one character is another character to NFC.
  EXPECT_EQ(TextRules{}.apply("ﬁve ①"), "ﬁve ①");
  EXPECT_EQ(TextRules{.unicode = UnicodeForm::kNfkc}.apply("ﬁve ① Ｈｉ"), "five 1 Hi");
}

TEST(Unicode, ChangesCase) {
  EXPECT_EQ(kLowered.apply("ZAŻÓŁĆ ГОРОД ΟΔΟΣ"), "zażółć город οδοσ");
  EXPECT_EQ(kUpper.apply("zażółć город"), "ZAŻÓŁĆ ГОРОД");
}

TEST(Unicode, RemovesPunctuation) {
  EXPECT_EQ(kNoMarks.apply("„Pod Lutym Turem” — rzekł… 5 € d’Arc ¿no?"),
            "Pod Lutym Turem rzekł 5 dArc no");
  EXPECT_EQ(kNoMarks.apply("你好，世界。"), "你好 世界");
}

// Scripts without case, right-to-left scripts, and unassigned characters.
TEST(Unicode, SupportsAnyScript) {
  const std::string arabic = "مرحبا بالعالم";
  const std::string hebrew = "שָׁלוֹם עולם";
  const std::string unassigned = "\U000E0FFF \U000F0000";
  for (const TextRules& rules : {TextRules{}, kLowered, kUpper, kNoMarks}) {
    EXPECT_EQ(rules.apply(arabic), arabic);
    // Hebrew points have an order in NFC.
    EXPECT_EQ(rules.apply(rules.apply(hebrew)), rules.apply(hebrew));
    EXPECT_EQ(rules.apply(unassigned), unassigned);
  }
  EXPECT_EQ(kNoMarks.apply("مرحبا، بالعالم؟"), arabic);
}

TEST(Unicode, IsIdempotent) {
  for (const char* text :
       {"a!\u0301 b", "\u00A8 x", "İstanbul ǅ", "Ａ．Ｂ", "½ ﷺ", "e\u0301\u0327"}) {
    for (const TextRules& rules : {TextRules{}, kLowered, kUpper, kNoMarks, kAll}) {
      const std::string once = rules.apply(text);
      EXPECT_EQ(rules.apply(once), once) << text;
    }
  }
}

}  // namespace
}  // namespace sotto::data
