#include "sotto/data/text/sentence_piece.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "sotto/core/error.h"
#include "sotto/data/text/chars_map.h"
#include "sotto/data/text/tokenizer.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

using Labels = std::vector<int32_t>;
using Kind = SentencePieceTraining::Kind;

// Words of syllables that come again and again; `jeden`, `dwa` and `osiem` among them.
std::vector<std::string> syllable_texts() {
  const std::vector<std::string> syllables = {"je", "den",  "dwa",  "trzy", "czte", "ry",
                                              "o",  "siem", "pięć", "sza",  "nie",  "wie"};
  std::vector<std::string> texts = {"jeden dwa osiem"};
  for (size_t i = 0; i < 600; ++i) {
    std::string text;
    for (size_t word = 0; word < 4; ++word) {
      if (word > 0) text += ' ';
      for (size_t part = 0; part <= (i + word) % 3; ++part)
        text += syllables[(i * (7 + 2 * word) + part * part * 5 + i / 13) % syllables.size()];
    }
    texts.push_back(text);
  }
  return texts;
}

// Texts as they are: these tests need no utf8proc.
const TextRules kAsTheyAre{.unicode = UnicodeForm::kNone};

Tokenizer make(Kind kind, int64_t size, TextRules rules = kAsTheyAre) {
  return {SentencePieceModel::parse(
              train_sentence_piece(syllable_texts(), {.kind = kind, .size = size}), "test"),
          std::move(rules)};
}

// A table of one trie of 256 units and these texts.
std::string chars_map_of(const std::vector<uint32_t>& units, const std::string& texts) {
  const auto size = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes.append(reinterpret_cast<const char*>(units.data()), size);
  return bytes + texts;
}

std::string refusal_of_chars_map(const std::vector<uint32_t>& units, const std::string& texts) {
  return message_of<DataError>([&] { check_chars_map(chars_map_of(units, texts), "x.model"); });
}

TEST(CharsMap, ThatLeadsOutsideIsRefused) {
  const std::string text("a\0", 2);
  std::vector<uint32_t> units(256, 0);
  // 'A' leads to the value in unit 1.
  units[65] = 65U | 1U << 8U | 64U << 10U;
  units[1] = 1U << 31U;
  EXPECT_NO_THROW(check_chars_map(chars_map_of(units, text), "x.model"));
  units[1] = 1U << 31U | 2U;
  EXPECT_PRED2(contains, refusal_of_chars_map(units, text), "names a text outside of it");
  units[1] = 1U << 31U;
  EXPECT_PRED2(contains, refusal_of_chars_map(units, "a"), "whose last text does not end");
  units[65] = 65U | 256U << 10U;
  EXPECT_PRED2(contains, refusal_of_chars_map(units, text), "whose trie leads outside of it");
  EXPECT_PRED2(contains, refusal_of_chars_map(std::vector<uint32_t>(16, 0), text),
               "whose trie leads outside of it");
  EXPECT_PRED2(contains, refusal_of_chars_map(units, ""), "with a trie of 1024");
}

class SentencePiece : public testing::TestWithParam<Kind> {};

TEST_P(SentencePiece, EncodesAndDecodes) {
  const Tokenizer tokenizer = make(GetParam(), 60);
  EXPECT_EQ(tokenizer.size(), 60);
  EXPECT_EQ(tokenizer.blank(), 0);
  EXPECT_EQ(tokenizer.end(), 2);
  for (const std::string& text : syllable_texts()) {
    const Tokenizer::Encoded encoded = tokenizer.encode(text);
    EXPECT_TRUE(encoded.unknown.empty());
    EXPECT_LT(encoded.labels.size(), text.size());
    for (const int32_t label : encoded.labels) EXPECT_GE(label, 3);
    EXPECT_EQ(tokenizer.decode(encoded.labels), text);
  }
  EXPECT_TRUE(tokenizer.encode("").labels.empty());
  EXPECT_EQ(tokenizer.decode({}), "");
  // The blank and the end leave no text.
  Labels labels = tokenizer.encode("jeden").labels;
  labels.insert(labels.begin(), {0, 2});
  EXPECT_EQ(tokenizer.decode(labels), "jeden");
}

TEST_P(SentencePiece, IsTheSameForTheSameTexts) {
  const SentencePieceTraining training{.kind = GetParam(), .size = 60};
  const std::string model = train_sentence_piece(syllable_texts(), training);
  EXPECT_EQ(train_sentence_piece(syllable_texts(), training), model);
  std::vector<std::string> fewer = syllable_texts();
  fewer.resize(90);
  EXPECT_NE(train_sentence_piece(fewer, training), model);
}

TEST_P(SentencePiece, ListsUnknownCharacters) {
  const Tokenizer tokenizer = make(GetParam(), 60);
  const Tokenizer::Encoded encoded = tokenizer.encode("jeden Ω трzy Ω");
  EXPECT_EQ(encoded.unknown, (std::vector<std::string>{"Ω", "тр"}));
  EXPECT_EQ(std::ranges::count(encoded.labels, 1), 3);
}

TEST_P(SentencePiece, RefusesSizeTooLargeForTheTexts) {
  const auto train = [](int64_t size) {
    return message_of<DataError>(
        [&] { train_sentence_piece({"a b a b"}, {.kind = GetParam(), .size = size}); });
  };
  EXPECT_PRED2(contains, train(5'000), "training a tokenizer of 5000 pieces: SentencePiece says");
  EXPECT_PRED2(contains, train(4), "training a tokenizer of 4 pieces: SentencePiece says");
  EXPECT_PRED2(contains, message_of<DataError>([] { train_sentence_piece({"", ""}, {}); }),
               "SentencePiece says");
}

// Right-to-left scripts and scripts without spaces work like any other.
TEST_P(SentencePiece, SupportsAnyScript) {
  const std::vector<std::string> texts = {"مرحبا بالعالم", "שלום עולם", "你好世界", "𐌰𐌱𐌲 𐌰𐌱"};
  const Tokenizer tokenizer(
      SentencePieceModel::parse(
          train_sentence_piece(texts,
                               {.kind = GetParam(), .size = GetParam() == Kind::kBpe ? 34 : 26}),
          "test"),
      kAsTheyAre);
  for (const std::string& text : texts) {
    const Tokenizer::Encoded encoded = tokenizer.encode(text);
    EXPECT_TRUE(encoded.unknown.empty()) << text;
    EXPECT_EQ(tokenizer.decode(encoded.labels), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SentencePiece, testing::Values(Kind::kBpe, Kind::kUnigram),
                         [](const auto& given) {
                           return given.param == Kind::kBpe ? "Bpe" : "Unigram";
                         });

TEST(SentencePieceFile, RoundTripsThroughAFolder) {
  const TempFolder folder;
  const Tokenizer written = make(Kind::kBpe, 60);
  written.write(folder.path());
  const Tokenizer read = Tokenizer::read(folder.path(), kAsTheyAre);
  EXPECT_EQ(read.fingerprint(), written.fingerprint());
  EXPECT_EQ(read.encode("dwa jeden").labels, written.encode("dwa jeden").labels);
  EXPECT_EQ(Tokenizer::find(folder.path()), folder.path() / "tokenizer.model");
}

TEST(SentencePieceFile, IsRefusedIfBroken) {
  const TempFolder folder;
  const std::string whole = train_sentence_piece(syllable_texts(), {.size = 60});
  const auto message = [&](std::string_view bytes) {
    const auto path = folder.write("a.model", bytes);
    return message_of<DataError>([&] { Tokenizer::read(path, {}); });
  };
  for (const std::string_view bytes : {std::string_view(whole).substr(0, whole.size() / 2),
                                       std::string_view("not a model"), std::string_view()})
    EXPECT_PRED2(contains, message(bytes), "a.model: a file that SentencePiece cannot read");
  EXPECT_PRED2(contains,
               message_of<DataError>([&] { Tokenizer::read(folder.path() / "no.model", {}); }),
               "no.model");
}

// As in NeMo models: without <pad>, the blank follows the last piece.
TEST(SentencePieceFile, HasItsOwnBlankWithoutPadding) {
  const TempFolder folder;
  std::string model = train_sentence_piece(syllable_texts(), {.size = 60});
  // Its name is all that makes a piece the padding.
  const size_t index = model.find("<pad>");
  ASSERT_NE(index, std::string::npos);
  model.replace(index, 5, "<abc>");
  const size_t setting = model.rfind("<pad>");
  if (setting != std::string::npos) model.replace(setting, 5, "<xyz>");
  const Tokenizer tokenizer(SentencePieceModel::parse(model, "test"), {});
  EXPECT_EQ(tokenizer.size(), 61);
  EXPECT_EQ(tokenizer.blank(), 60);
  Labels labels = tokenizer.encode("osiem").labels;
  labels.push_back(60);
  EXPECT_EQ(tokenizer.decode(labels), "osiem");
}

TEST(SentencePieceFile, CanBeUsedFromSeveralThreads) {
  const Tokenizer tokenizer = make(Kind::kUnigram, 60);
  const std::vector<std::string> texts = syllable_texts();
  std::vector<std::vector<Labels>> found(4);
  {
    std::vector<std::jthread> threads;
    for (std::vector<Labels>& mine : found) {
      threads.emplace_back([&] {
        for (const std::string& text : texts) mine.push_back(tokenizer.encode(text).labels);
      });
    }
  }
  for (const std::vector<Labels>& other : found) EXPECT_EQ(other, found.front());
}

}  // namespace
}  // namespace sotto::data
