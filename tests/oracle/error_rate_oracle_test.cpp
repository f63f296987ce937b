// Word and character errors against jiwer, by way of tests/fixtures/error_rate.json, which
// make_error_rate.py makes.
#include <gtest/gtest.h>

#include <string>

#include "sotto/decode/error_rate.h"
#include "support/fixture.h"

namespace sotto::test {
namespace {

using decode::ErrorCounts;
using nlohmann::json;

ErrorCounts counts(const json& row) {
  return {.insertions = row.at("insertions"),
          .deletions = row.at("deletions"),
          .substitutions = row.at("substitutions"),
          .reference_length = row.at("reference_length")};
}

TEST(ErrorRateOracle, CountsLikeJiwer) {
  const json fixture = read_fixture("error_rate");
  ASSERT_GE(fixture.at("pairs").size(), 60u);
  ErrorCounts words, characters;
  for (const json& pair : fixture.at("pairs")) {
    SCOPED_TRACE(pair.dump());
    const auto reference = pair.at("reference").get<std::string>();
    const auto hypothesis = pair.at("hypothesis").get<std::string>();
    const ErrorCounts of_words = decode::word_errors(reference, hypothesis);
    const ErrorCounts of_characters = decode::character_errors(reference, hypothesis);
    EXPECT_EQ(of_words, counts(pair.at("words")));
    EXPECT_EQ(of_characters, counts(pair.at("characters")));
    EXPECT_DOUBLE_EQ(of_words.rate(), pair.at("word_rate").get<double>());
    words += of_words;
    characters += of_characters;
  }
  EXPECT_DOUBLE_EQ(words.rate(), fixture.at("word_rate").get<double>());
  EXPECT_DOUBLE_EQ(characters.rate(), fixture.at("character_rate").get<double>());
}

}  // namespace
}  // namespace sotto::test
