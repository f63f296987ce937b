#include "sotto/decode/error_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace sotto::decode {
namespace {

ErrorCounts counts(int64_t insertions, int64_t deletions, int64_t substitutions, int64_t length) {
  return {.insertions = insertions,
          .deletions = deletions,
          .substitutions = substitutions,
          .reference_length = length};
}

TEST(WordErrors, AreCountedByKind) {
  EXPECT_EQ(word_errors("a b c", "a b c"), counts(0, 0, 0, 3));
  EXPECT_EQ(word_errors("a b c", "a c"), counts(0, 1, 0, 3));
  EXPECT_EQ(word_errors("a b c", "a b x c"), counts(1, 0, 0, 3));
  EXPECT_EQ(word_errors("a b c", "a x c"), counts(0, 0, 1, 3));
  EXPECT_EQ(word_errors("a b c d", "b c e d f"), counts(2, 1, 0, 4));
  EXPECT_EQ(word_errors("one word", "oneword"), counts(0, 1, 1, 2));
}

TEST(WordErrors, IgnoreSpaceAroundWords) {
  EXPECT_EQ(word_errors(" a  b\tc\n", "a\vb\fc\r"), counts(0, 0, 0, 3));
  EXPECT_EQ(word_errors("A.", "a"), counts(0, 0, 1, 1)) << "nothing is normalised";
  EXPECT_EQ(word_errors("\xC3\xA9t\xC3\xA9", "ete"), counts(0, 0, 1, 1));
}

TEST(WordErrors, OfEmptyText) {
  EXPECT_EQ(word_errors("", ""), counts(0, 0, 0, 0));
  EXPECT_EQ(word_errors("", " \n"), counts(0, 0, 0, 0));
  EXPECT_EQ(word_errors("", "a b"), counts(2, 0, 0, 0));
  EXPECT_EQ(word_errors("a b", ""), counts(0, 2, 0, 2));
}

TEST(CharacterErrors, CountCodePointsAndSpacesBetweenWords) {
  EXPECT_EQ(character_errors("\xC3\xA9t\xC3\xA9", "ete"), counts(0, 0, 2, 3));
  EXPECT_EQ(character_errors("\xE2\x82\xAC\xF0\x9F\x98\x80", "\xE2\x82\xAC"), counts(0, 1, 0, 2));
  EXPECT_EQ(character_errors("a b", "ab"), counts(0, 1, 0, 3));
  EXPECT_EQ(character_errors("a  b", "a b"), counts(0, 1, 0, 4));
  EXPECT_EQ(character_errors(" a b\n", "a b"), counts(0, 0, 0, 3));
  EXPECT_EQ(character_errors("  ", "  "), counts(0, 0, 0, 0));
}

TEST(CharacterErrors, CountABrokenByteAsACharacter) {
  EXPECT_EQ(character_errors("a\xFF", "a\xFF"), counts(0, 0, 0, 2));
  EXPECT_EQ(character_errors("a\xFF", "a\xFE"), counts(0, 0, 1, 2));
  EXPECT_EQ(character_errors("\xE2\x82", "\xE2\x82\xAC"), counts(0, 1, 1, 2)) << "cut short";
}

TEST(ErrorCounts, AddUpToTheCorpusRate) {
  ErrorCounts total;
  total += word_errors("a b c", "a b");
  total += word_errors("d", "d e");
  EXPECT_EQ(total, counts(1, 1, 0, 4));
  EXPECT_EQ(total.errors(), 2);
  EXPECT_EQ(total.rate(), 0.5);
}

TEST(ErrorCounts, HaveARateForAnEmptyReference) {
  EXPECT_EQ(ErrorCounts{}.rate(), 0.0);
  EXPECT_EQ(word_errors("", "a b").rate(), 2.0);
  EXPECT_EQ(word_errors("a", "a b c").rate(), 2.0) << "above 1 where much is inserted";
}

// The plain table of distances, for the total alone.
int64_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<int64_t>> table(a.size() + 1, std::vector<int64_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = static_cast<int64_t>(i + j);
        continue;
      }
      const int64_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      table[i][j] =
          std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + change});
    }
  }
  return table.back().back();
}

TEST(CharacterErrors, AreTheFewestPossible) {
  std::mt19937 source(7);
  const auto draw = [&] {
    std::string text(source() % 30, ' ');
    for (char& letter : text) letter = static_cast<char>('a' + source() % 3);
    return text;
  };
  for (int round = 0; round < 500; ++round) {
    const std::string reference = draw(), hypothesis = draw();
    const ErrorCounts errors = character_errors(reference, hypothesis);
    EXPECT_EQ(errors.errors(), distance(reference, hypothesis)) << reference << " " << hypothesis;
    EXPECT_EQ(errors.insertions - errors.deletions,
              static_cast<int64_t>(hypothesis.size()) - static_cast<int64_t>(reference.size()));
    EXPECT_EQ(errors, character_errors(reference, hypothesis)) << "the same every time";
  }
}

}  // namespace
}  // namespace sotto::decode
