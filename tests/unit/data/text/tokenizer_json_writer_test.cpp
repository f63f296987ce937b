#include "sotto/data/text/tokenizer_json_writer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sotto/core/build_info.h"
#include "sotto/core/error.h"
#include "sotto/data/text/tokenizer.h"
#include "support/temp_folder.h"

namespace sotto::data {
namespace {

using nlohmann::json;
using test::TempFolder;
using Kind = SentencePieceTraining::Kind;

const TextRules kUnchangedTexts{.unicode = UnicodeForm::kNone};

std::vector<std::string> texts() {
  const std::vector<std::string> syllables = {"je", "den",  "dwa",  "trzy", "czte", "ry",
                                              "o",  "siem", "pięć", "sza",  "nie",  "wie"};
  std::vector<std::string> found;
  for (size_t i = 0; i < 300; ++i) {
    std::string text;
    for (size_t word = 0; word < 4; ++word) {
      if (word > 0) text += ' ';
      for (size_t part = 0; part <= (i + word) % 3; ++part)
        text += syllables[(i * (7 + 2 * word) + part * part * 5 + i / 13) % syllables.size()];
    }
    found.push_back(text);
  }
  return found;
}

class WrittenTokenizer : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (build_info().text.find("no SentencePiece") != std::string::npos)
      GTEST_SKIP() << "this build has no SentencePiece";
  }
};

// What is written is read back with the same entries, and written again as the same file.
TEST_P(WrittenTokenizer, IsReadBackWithTheSameEntries) {
  const Tokenizer tokenizer(
      SentencePieceModel::parse(train_sentence_piece(texts(), {.kind = GetParam(), .size = 50}),
                                "test"),
      kUnchangedTexts);
  const std::optional<TokenizersFile> file = tokenizer.for_transformers("<blank>");
  ASSERT_TRUE(file);
  EXPECT_EQ(std::ssize(file->entries), tokenizer.size());
  EXPECT_EQ(file->entries[0], "<pad>");
  EXPECT_TRUE(file->is_special[0]);
  EXPECT_FALSE(file->is_special.back());
  const TempFolder folder;
  folder.write("tokenizer.json", file->text);
  const Tokenizer read = Tokenizer::read(folder.path(), kUnchangedTexts);
  EXPECT_EQ(read.size(), tokenizer.size());
  EXPECT_EQ(read.blank(), tokenizer.blank());
  EXPECT_EQ(read.unknown(), tokenizer.unknown());
  std::vector<std::string> all = texts();
  all.insert(all.end(), {"", " ", "  je  den ", "xje?", "je x", "ĄĘ je"});
  for (const std::string& text : all) {
    const Tokenizer::Encoded encoded = tokenizer.encode(text);
    EXPECT_EQ(read.encode(text).labels, encoded.labels) << text;
    EXPECT_EQ(read.decode(encoded.labels), tokenizer.decode(encoded.labels)) << text;
  }
  EXPECT_EQ(read.for_transformers("<blank>")->text, file->text);
}

INSTANTIATE_TEST_SUITE_P(Kinds, WrittenTokenizer, testing::Values(Kind::kBpe, Kind::kUnigram),
                         [](const auto& one) {
                           return one.param == Kind::kBpe ? std::string("Bpe") : "Unigram";
                         });

TEST(TokenizerJson, OfCharactersHasNoMerges) {
  const Tokenizer tokenizer(Vocabulary::from_texts({"ab c"}), kUnchangedTexts);
  const std::optional<TokenizersFile> file = tokenizer.for_transformers("<blank>");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->entries, (std::vector<std::string>{"<pad>", "\u2581", "a", "b", "c"}));
  const json content = json::parse(file->text);
  EXPECT_EQ(content["model"]["merges"], json::array());
  EXPECT_EQ(content["pre_tokenizer"]["prepend_scheme"], "never");
  EXPECT_EQ(content["added_tokens"].size(), 1u);
  EXPECT_EQ(content["added_tokens"][0]["content"], "<pad>");
}

// The files of a Parakeet for transformers change nothing of the vocabulary beside them.
TEST(TokenizerJson, IsNoSettingOfTheVocabularyBesideIt) {
  const TempFolder folder;
  const Tokenizer tokenizer(Vocabulary::from_texts({"ab c"}), kUnchangedTexts);
  tokenizer.write(folder.path());
  folder.write("tokenizer.json", tokenizer.for_transformers("<blank>")->text);
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "ParakeetTokenizer"})");
  folder.write("config.json",
               R"({"model_type": "parakeet_ctc", "architectures": ["ParakeetForCTC"]})");
  const Tokenizer read = Tokenizer::read(folder.path(), kUnchangedTexts);
  EXPECT_EQ(read.size(), tokenizer.size());
  EXPECT_EQ(read.fingerprint(), tokenizer.fingerprint());
}

TEST(TokenizerJson, OfOtherVocabulariesIsNotThere) {
  const TempFolder folder;
  const auto has_file = [&](const json& entries) {
    return Tokenizer::read(folder.write("vocab.json", entries.dump()), kUnchangedTexts)
        .for_transformers("<blank>")
        .has_value();
  };
  EXPECT_TRUE(has_file({{"<pad>", 0}, {"|", 1}, {"a", 2}, {"</s>", 3}}));
  // Several characters, and a number without an entry.
  EXPECT_FALSE(has_file({{"<pad>", 0}, {"|", 1}, {"ab", 2}}));
  EXPECT_FALSE(has_file({{"<pad>", 0}, {"|", 1}, {"a", 3}}));
}

}  // namespace
}  // namespace sotto::data
