// Tokenizers of characters, and what all tokenizers share; sentence_piece_test.cpp has the others.
#include "sotto/data/text/tokenizer.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

using Labels = std::vector<int32_t>;

const TextRules kLower{.letter_case = LetterCase::kLower, .punctuation = Punctuation::kRemove};

TEST(Tokenizer, AppliesItsRulesBeforeEncoding) {
  const Tokenizer tokenizer(Vocabulary::from_texts({"abc"}), kLower);
  const Tokenizer::Encoded encoded = tokenizer.encode(" A, b!  C");
  EXPECT_EQ(encoded.text, "a b c");
  EXPECT_EQ(encoded.labels, (Labels{2, 1, 3, 1, 4}));
  EXPECT_TRUE(encoded.unknown.empty());
  EXPECT_EQ(tokenizer.decode(encoded.labels), "a b c");
  EXPECT_EQ(tokenizer.encode("A d D").unknown, std::vector<std::string>{"d"});
  EXPECT_EQ(tokenizer.size(), 5);
  EXPECT_EQ(tokenizer.blank(), 0);
  EXPECT_EQ(tokenizer.end(), std::nullopt);
}

TEST(Tokenizer, RoundTripsThroughAFolder) {
  const TempFolder folder;
  const Tokenizer written(Vocabulary::from_texts({"abc"}), kLower);
  EXPECT_EQ(Tokenizer::find(folder.path()), std::nullopt);
  EXPECT_PRED2(contains, message_of<DataError>([&] { Tokenizer::read(folder.path(), {}); }),
               "a vocab.json, a tokenizer.model or a tokenizer.json");
  written.write(folder.path());
  EXPECT_EQ(Tokenizer::find(folder.path()), folder.path() / "vocab.json");
  for (const auto& path : {folder.path(), folder.path() / "vocab.json"}) {
    const Tokenizer read = Tokenizer::read(path, kLower);
    EXPECT_EQ(read.fingerprint(), written.fingerprint());
    EXPECT_EQ(read.encode("CAB").labels, written.encode("CAB").labels);
  }
}

TEST(Tokenizer, DifferentOnesHaveDifferentFingerprints) {
  const Vocabulary vocabulary = Vocabulary::from_texts({"abc"});
  const uint64_t fingerprint = Tokenizer(vocabulary, {}).fingerprint();
  EXPECT_EQ(Tokenizer(vocabulary, {}).fingerprint(), fingerprint);
  for (const TextRules& rules :
       {TextRules{.unicode = UnicodeForm::kNone}, TextRules{.letter_case = LetterCase::kLower},
        TextRules{.punctuation = Punctuation::kRemove}, TextRules{.keep_characters = "-"}})
    EXPECT_NE(Tokenizer(vocabulary, rules).fingerprint(), fingerprint);
  EXPECT_NE(Tokenizer(Vocabulary::from_texts({"abd"}), {}).fingerprint(), fingerprint);
}

TEST(Tokenizer, HasUnknownAndEndOfAPublishedVocabulary) {
  const TempFolder folder;
  const Tokenizer tokenizer = Tokenizer::read(
      folder.write("vocab.json", R"({"<pad>": 0, "</s>": 1, "<unk>": 2, "|": 3, "a": 4})"),
      {.unicode = UnicodeForm::kNone});
  EXPECT_EQ(tokenizer.end(), 1);
  const Tokenizer::Encoded encoded = tokenizer.encode("a ż");
  EXPECT_EQ(encoded.labels, (Labels{4, 3, 2}));
  EXPECT_EQ(encoded.unknown, std::vector<std::string>{"ż"});
  EXPECT_EQ(tokenizer.decode(encoded.labels), "a ");
}

}  // namespace
}  // namespace sotto::data
