// A build without utf8proc: ASCII works, the rest names the package.
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/data/text/byte_bpe.h"
#include "sotto/data/text/text_rules.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;

TEST(UnicodeNone, AcceptsAscii) {
  const TextRules rules{.letter_case = LetterCase::kLower, .punctuation = Punctuation::kRemove};
  EXPECT_EQ(rules.apply("It's  FIVE, then."), "its five then");
  EXPECT_EQ(TextRules{.unicode = UnicodeForm::kNone}.apply("żółty"), "żółty");
}

TEST(UnicodeNone, NamesThePackage) {
  for (const TextRules& rules :
       {TextRules{}, TextRules{.unicode = UnicodeForm::kNone, .letter_case = LetterCase::kUpper},
        TextRules{.unicode = UnicodeForm::kNone, .punctuation = Punctuation::kRemove}}) {
    EXPECT_PRED2(contains, message_of<ConfigError>([&] { rules.apply("żółty"); }),
                 "Install libutf8proc-dev");
  }
  EXPECT_PRED2(contains,
               message_of<ConfigError>([] { TextRules{.unicode = UnicodeForm::kNfkc}.validate(); }),
               "Install libutf8proc-dev");
}

TEST(UnicodeNone, RefusesAByteLevelBpe) {
  EXPECT_PRED2(contains, message_of<ConfigError>([] { ByteBpe model((ByteBpeFiles())); }),
               "Install libutf8proc-dev");
}

}  // namespace
}  // namespace sotto::data
