// Tokenizers against the Python packages of SentencePiece and transformers, and forms of Unicode
// against Python's, by way of tests/fixtures/tokenizers.json, which make_tokenizers.py makes.
#include <gtest/gtest.h>

#include <string>

#include "sotto/core/build_info.h"
#include "sotto/core/utf8.h"
#include "sotto/data/text/full_case.h"
#include "sotto/data/text/tokenizer.h"
#include "support/fixture.h"
#include "support/temp_folder.h"

namespace sotto::test {
namespace {

using data::TextRules;
using data::Tokenizer;
using nlohmann::json;

std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6U | static_cast<uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> static_cast<uint32_t>(count) & 0xFFU);
  }
  return bytes;
}

// What was encoded there is encoded here, and decoded to the same text.
void expect_cases(const json& cases, const Tokenizer& tokenizer) {
  ASSERT_GE(cases.size(), 7u);
  for (const json& one : cases) {
    const auto text = one.at("text").get<std::string>();
    SCOPED_TRACE(text);
    const Tokenizer::Encoded encoded = tokenizer.encode(text);
    EXPECT_EQ(encoded.labels, one.at("labels").get<std::vector<int32_t>>());
    EXPECT_EQ(tokenizer.decode(encoded.labels), one.at("decoded").get<std::string>());
  }
}

TEST(TokenizerOracle, PiecesMatchThePythonPackage) {
  if (build_info().text.find("no SentencePiece") != std::string::npos)
    GTEST_SKIP() << "this build has no SentencePiece";
  const json fixture = read_fixture("tokenizers");
  for (const char* kind : {"bpe", "unigram"}) {
    SCOPED_TRACE(kind);
    const json& part = fixture.at(kind);
    const Tokenizer tokenizer(
        data::SentencePieceModel::parse(from_base64(part.at("model")), "the fixture"),
        TextRules{.unicode = data::UnicodeForm::kNone});
    EXPECT_EQ(tokenizer.size(), part.at("size").get<int64_t>());
    EXPECT_EQ(tokenizer.blank(), 0);
    expect_cases(part.at("cases"), tokenizer);
  }
}

TEST(TokenizerOracle, TokenizerJsonMatchesTransformers) {
  if (build_info().text.find("no SentencePiece") != std::string::npos)
    GTEST_SKIP() << "this build has no SentencePiece";
  const json fixture = read_fixture("tokenizer_json");
  for (const char* name : {"bpe", "blank", "unigram"}) {
    SCOPED_TRACE(name);
    const json& part = fixture.at(name);
    const TempFolder folder;
    folder.write("tokenizer.json", part.at("file").dump());
    const Tokenizer tokenizer =
        Tokenizer::read(folder.path(), TextRules{.unicode = data::UnicodeForm::kNone});
    EXPECT_EQ(tokenizer.size(), part.at("size").get<int64_t>());
    EXPECT_EQ(tokenizer.blank(), part.at("blank").get<int32_t>());
    for (const json& one : part.at("cases")) {
      EXPECT_EQ(tokenizer.encode(one.at("text").get<std::string>()).labels,
                one.at("labels").get<std::vector<int32_t>>())
          << one.at("text");
    }
    // Written again, it says the same.
    const std::optional<data::TokenizersFile> again = tokenizer.for_transformers("<blank>");
    ASSERT_TRUE(again);
    folder.write("tokenizer.json", again->text);
    const Tokenizer reread =
        Tokenizer::read(folder.path(), TextRules{.unicode = data::UnicodeForm::kNone});
    EXPECT_EQ(reread.size(), tokenizer.size());
    EXPECT_EQ(reread.blank(), tokenizer.blank());
    for (const json& one : part.at("cases")) {
      EXPECT_EQ(reread.encode(one.at("text").get<std::string>()).labels,
                one.at("labels").get<std::vector<int32_t>>())
          << one.at("text");
    }
  }
}

TEST(TokenizerOracle, CharactersMatchTransformers) {
  const json fixture = read_fixture("tokenizers").at("characters");
  const TempFolder folder;
  expect_cases(fixture.at("cases"),
               Tokenizer::read(folder.write("vocab.json", fixture.at("vocabulary").dump()),
                               TextRules{.unicode = data::UnicodeForm::kNone}));
}

// transformers takes spaces off both ends of what it decodes.
std::string stripped(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

void expect_vocabulary(const json& expected, const data::Vocabulary& vocabulary) {
  EXPECT_EQ(vocabulary.size(), expected.at("size").get<int64_t>());
  EXPECT_EQ(vocabulary.blank(), expected.at("blank").get<int32_t>());
  for (const json& one : expected.at("cases")) {
    const auto text = one.at("text").get<std::string>();
    SCOPED_TRACE(text);
    const data::Vocabulary::Encoded encoded = vocabulary.encode(text);
    EXPECT_EQ(encoded.labels, one.at("labels").get<std::vector<int32_t>>());
    EXPECT_EQ(stripped(vocabulary.decode(encoded.labels)), one.at("decoded").get<std::string>());
  }
  std::vector<int32_t> every;
  for (int32_t label = 0; label < vocabulary.size(); ++label) {
    if (label != vocabulary.blank()) every.push_back(label);
  }
  EXPECT_EQ(stripped(vocabulary.decode(every)), expected.at("every_label").get<std::string>());
}

// Digraphs, added tokens, special tokens, delimiters, gaps, languages: every file that transformers
// reads for a vocabulary, and random vocabularies whose tokens overlap. What is written comes back.
TEST(TokenizerOracle, FoldersAreReadLikeTransformers) {
  if (!data::Unicode::is_available()) GTEST_SKIP() << "this build has no utf8proc";
  const json folders = read_fixture("tokenizers").at("folders");
  ASSERT_GE(folders.size(), 40u);
  size_t num_cases = 0;
  for (const json& expected : folders) {
    SCOPED_TRACE(expected.at("name").get<std::string>());
    const TempFolder folder;
    for (const auto& [name, content] : expected.at("files").items())
      folder.write(name, content.dump());
    const data::Vocabulary vocabulary = data::Vocabulary::read(folder.path() / "vocab.json");
    expect_vocabulary(expected, vocabulary);
    num_cases += expected.at("cases").size();

    const TempFolder copy;
    vocabulary.write(copy.path() / "vocab.json");
    copy.write("config.json", expected.at("files").at("config.json").dump());
    expect_vocabulary(expected, data::Vocabulary::read(copy.path() / "vocab.json"));
  }
  EXPECT_GT(num_cases, 300u);
}

TEST(TokenizerOracle, LetterCaseMatchesPython) {
  if (!data::Unicode::is_available()) GTEST_SKIP() << "this build has no utf8proc";
  for (const json& one : read_fixture("tokenizers").at("letter_cases")) {
    const auto text = one.at("text").get<std::string>();
    std::u32string upper;
    for (const char32_t code : code_points_of(text)) upper += data::full_upper(code);
    EXPECT_EQ(to_utf8(upper), one.at("upper").get<std::string>());
    EXPECT_EQ(data::full_lower(text), one.at("lower").get<std::string>());
  }
}

TEST(TokenizerOracle, UnicodeFormsMatchPython) {
  if (!data::Unicode::is_available()) GTEST_SKIP() << "this build has no utf8proc";
  const json fixture = read_fixture("tokenizers");
  for (const json& form : fixture.at("forms")) {
    const auto text = form.at("text").get<std::string>();
    EXPECT_EQ(data::Unicode::normalise(text, data::UnicodeForm::kNfc),
              form.at("nfc").get<std::string>());
    EXPECT_EQ(data::Unicode::normalise(text, data::UnicodeForm::kNfkc),
              form.at("nfkc").get<std::string>());
  }
}

}  // namespace
}  // namespace sotto::test
