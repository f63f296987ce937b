#include "sotto/data/text/vocabulary.h"

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

TEST(Vocabulary, FromTextsIsSortedByCodePoint) {
  const Vocabulary vocabulary = Vocabulary::from_texts({"b a", "€uro", "zażółć", "𝄞", ""});
  EXPECT_EQ(vocabulary.entries(), (std::vector<std::string>{"<pad>", "|", "a", "b", "o", "r", "u",
                                                            "z", "ó", "ć", "ł", "ż", "€", "𝄞"}));
  EXPECT_EQ(vocabulary.blank(), 0);
  EXPECT_EQ(vocabulary.size(), 14);
  EXPECT_EQ(Vocabulary::from_texts({}).entries(), (std::vector<std::string>{"<pad>", "|"}));
}

TEST(Vocabulary, EncodesAndDecodes) {
  const Vocabulary vocabulary = Vocabulary::from_texts({"abc ź"});
  const Vocabulary::Encoded encoded = vocabulary.encode("ab ź  a");
  EXPECT_EQ(encoded.labels, (Labels{2, 3, 1, 5, 1, 1, 2}));
  EXPECT_TRUE(encoded.unknown.empty());
  EXPECT_EQ(vocabulary.decode(encoded.labels), "ab ź  a");
  EXPECT_EQ(vocabulary.decode(Labels{0, 2, 0}), "a");
  EXPECT_TRUE(vocabulary.encode("").labels.empty());
  EXPECT_EQ(vocabulary.decode({}), "");
}

TEST(Vocabulary, ListsUnknownCharactersOnce) {
  const Vocabulary vocabulary = Vocabulary::from_texts({"ab"});
  const Vocabulary::Encoded encoded = vocabulary.encode("aXüXb€ü");
  EXPECT_EQ(encoded.unknown, (std::vector<std::string>{"X", "ü", "€"}));
  EXPECT_EQ(encoded.labels, (Labels{2, 3}));
}

// It would be decoded as a space.
TEST(Vocabulary, DelimiterInTextIsUnknown) {
  const Vocabulary vocabulary = Vocabulary::from_texts({"a|b <pad>"});
  EXPECT_EQ(vocabulary.size(), 2 + 6);  // and < > a b d p
  EXPECT_EQ(vocabulary.encode("a|b").unknown, std::vector<std::string>{"|"});
  EXPECT_EQ(vocabulary.decode(vocabulary.encode("<pad>").labels), "<pad>");
}

TEST(Vocabulary, RoundTripsThroughItsFile) {
  const TempFolder folder;
  const Vocabulary vocabulary = Vocabulary::from_texts({"zażółć gęślą \"jaźń\" \\"});
  vocabulary.write(folder.path() / "vocab.json");
  const Vocabulary read = Vocabulary::read(folder.path() / "vocab.json");
  EXPECT_EQ(read.entries(), vocabulary.entries());
  EXPECT_EQ(read.blank(), 0);
  EXPECT_TRUE(test::content_of(folder.path() / "vocab.json")
                  .starts_with("{\n  \"<pad>\": 0,\n  \"|\": 1,\n  \""));
  EXPECT_EQ(message_of<DataError>([&] { vocabulary.write(folder.path() / "no/vocab.json"); }),
            "writing the vocabulary " + (folder.path() / "no/vocab.json").string() +
                ": it could not be written. Expected a folder that exists and a disk that is not "
                "full.");
}

TEST(Vocabulary, ReadsPublishedVocabularies) {
  const TempFolder folder;
  const Vocabulary base = Vocabulary::read(folder.write(
      "base.json", R"({"E": 5, "<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "'": 6})"));
  EXPECT_EQ(base.encode("E E'").labels, (Labels{5, 4, 5, 6}));
  EXPECT_EQ(base.decode(Labels{0, 1, 5, 4, 6, 2, 3}), "E '");
  const Vocabulary other =
      Vocabulary::read(folder.write("other.json", R"({"a": 0, " ": 1, "[UNK]": 2, "[PAD]": 3})"));
  EXPECT_EQ(other.blank(), 3);
  EXPECT_EQ(other.encode("a a").labels, (Labels{0, 1, 0}));
}

// Without companion files of transformers.
TEST(Vocabulary, MatchesEntriesOfSeveralCharactersLongestFirst) {
  const TempFolder folder;
  const Vocabulary vocabulary = Vocabulary::read(folder.write(
      "v.json",
      R"({"<pad>": 0, "|": 1, "c": 2, "h": 3, "ch": 4, "chh": 5, "a": 6, "<unk>": 7, "[x]": 8})"));
  EXPECT_EQ(vocabulary.encode("chhhcha").labels, (Labels{5, 3, 4, 6}));
  // Spaces around it belong to it, as in transformers.
  EXPECT_EQ(vocabulary.encode("a ch a a").labels, (Labels{6, 4, 6, 1, 6}));
  EXPECT_EQ(vocabulary.decode(Labels{5, 1, 4, 8, 7}), "chh ch");
  // Entries in brackets are not matched.
  EXPECT_EQ(vocabulary.encode("<unk>").unknown.size(), 5u);
  EXPECT_TRUE(vocabulary.has_all(std::u32string_view(U"ha ")));
  EXPECT_FALSE(vocabulary.has_all(std::u32string_view(U"cha ")));
  EXPECT_FALSE(vocabulary.has_all(std::u32string_view(U"hax")));
  EXPECT_EQ(vocabulary.traits(), (std::vector<std::string>{"token ch", "token chh"}));
  EXPECT_TRUE(Vocabulary::from_texts({"abc"}).traits().empty());
}

TEST(Vocabulary, NumbersMayHaveGaps) {
  const TempFolder folder;
  const Vocabulary vocabulary =
      Vocabulary::read(folder.write("v.json", R"({"<blank>": 0, "a": 2, "|": 5})"));
  EXPECT_EQ(vocabulary.size(), 6);
  EXPECT_EQ(vocabulary.blank(), 0);
  EXPECT_EQ(vocabulary.entries()[3], "");
  EXPECT_EQ(vocabulary.encode("a a").labels, (Labels{2, 5, 2}));
  EXPECT_EQ(vocabulary.decode(Labels{1, 2, 3, 4}), "a");
  vocabulary.write(folder.path() / "again.json");
  EXPECT_EQ(Vocabulary::read(folder.path() / "again.json").entries(), vocabulary.entries());
}

TEST(Vocabulary, RefusesBrokenFiles) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& content) {
    const std::filesystem::path path = folder.write("vocab.json", content);
    return message_of<DataError>([&] { Vocabulary::read(path); });
  };
  EXPECT_PRED2(contains, refusal("{"), "it is not JSON. Expected an object of entries and numbers");
  EXPECT_PRED2(contains, refusal(R"(["<pad>"])"), "vocab.json: array. Expected an object");
  EXPECT_PRED2(contains, refusal("{}"), "an empty object");
  EXPECT_PRED2(contains, refusal(R"({"<pad>": 0, "a": 1048576})"),
               "entry 'a' has the number 1048576. Expected a whole number from 0 to 1048575");
  EXPECT_PRED2(contains, refusal(R"({"<pad>": "0"})"), "entry '<pad>' has the number \"0\"");
  EXPECT_PRED2(contains, refusal(R"({"<pad>": -1})"), "the number -1");
  EXPECT_PRED2(contains, refusal(R"({"<pad>": 0.0})"), "the number 0.0");
  EXPECT_PRED2(contains, refusal(R"({"<pad>": 0, "a": 0})"),
               "entries '<pad>' and 'a' both have the number 0");
  EXPECT_PRED2(contains, refusal(R"({"<pad>": 0, "": 1})"), "entry 1 is empty");
  EXPECT_PRED2(contains, refusal(R"({"a": 0, "|": 1})"),
               "no blank. Expected an entry <pad>, [PAD] or <blank>");
  EXPECT_PRED2(contains,
               message_of<DataError>([&] { Vocabulary::read(folder.path() / "no.json"); }),
               "No such file");
}

TEST(Vocabulary, RefusesInvalidUtf8) {
  EXPECT_PRED2(contains, message_of<DataError>([] { Vocabulary::from_texts({"gr\xFC"}); }),
               "reading a transcript: bytes that are not UTF-8");
}

}  // namespace
}  // namespace sotto::data
