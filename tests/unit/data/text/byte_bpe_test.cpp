// Byte-level BPE: words, merges, round trips, files and their refusals. byte_bpe_oracle_test.cpp
// compares with transformers.
#include "sotto/data/text/byte_bpe.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "sotto/core/error.h"
#include "sotto/core/utf8.h"
#include "sotto/data/text/tokenizer.h"
#include "support/byte_vocabulary.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using nlohmann::json;
using test::contains;
using test::message_of;
using test::TempFolder;
using test::write_byte_bpe;

using Labels = std::vector<int32_t>;
using Words = std::vector<std::string_view>;

ByteBpe tiny_model() {
  const TempFolder folder;
  return ByteBpe::read(test::write_tiny_whisper(folder));
}

Labels labels_of(const ByteBpe& model, std::string_view text) {
  std::vector<std::string> unknown;
  Labels labels = model.encode(text, unknown);
  EXPECT_TRUE(unknown.empty());
  return labels;
}

TEST(ByteBpe, SplitsWordsLikeGpt2) {
  EXPECT_EQ(split_words("I'll we've it's"), (Words{"I", "'ll", " we", "'ve", " it", "'s"}));
  EXPECT_EQ(split_words("Hello, world! 42nd"), (Words{"Hello", ",", " world", "!", " 42", "nd"}));
  EXPECT_EQ(split_words("a  b\n\n c  "), (Words{"a", " ", " b", "\n\n", " c", "  "}));
  EXPECT_EQ(split_words("x\tż ١٢ ½"), (Words{"x", "\t", "ż", " ١٢", " ½"}));
  EXPECT_EQ(split_words("don''t \xC2\xA0z"), (Words{"don", "''", "t", " ", "\xC2\xA0", "z"}));
  EXPECT_EQ(split_words(""), Words{});
  EXPECT_EQ(split_words(" "), Words{" "});
}

// "ab c" before "bc": the list's order decides, not the longest entry.
TEST(ByteBpe, MergesInTheOrderOfTheList) {
  const ByteBpe model = tiny_model();
  EXPECT_EQ(labels_of(model, "abc"), Labels{257});
  EXPECT_EQ(labels_of(model, "bc"), Labels{258});
  EXPECT_EQ(labels_of(model, " abc"), (Labels{32, 257}));
  EXPECT_EQ(labels_of(model, " a ab"), (Labels{259, 260}));
  EXPECT_EQ(labels_of(model, "abab"), (Labels{256, 256}));
  EXPECT_EQ(labels_of(model, "ż"), Labels{261});
  EXPECT_EQ(labels_of(model, ""), Labels{});
}

TEST(ByteBpe, ReturnsEveryText) {
  const ByteBpe model = tiny_model();
  std::mt19937 draw(1);
  for (int i = 0; i < 2'000; ++i) {
    std::u32string codes;
    for (size_t length = draw() % 20; codes.size() < length;) {
      const char32_t code = draw() % (i % 2 == 0 ? 0x180 : 0x110000);
      if (code < 0xD800 || code > 0xDFFF) codes += code;
    }
    const std::string text = to_utf8(codes);
    EXPECT_EQ(model.decode(labels_of(model, text)), text);
  }
}

TEST(ByteBpe, ReplacesPartsOfCharacters) {
  const ByteBpe model = tiny_model();
  EXPECT_EQ(model.decode(Labels{0xC5, 0xBC}), "ż");
  EXPECT_EQ(model.decode(Labels{'a', 0xC5}), "a\xEF\xBF\xBD");
  EXPECT_EQ(model.decode(Labels{0xC5, 'a'}),
            "\xEF\xBF\xBD"
            "a");
}

TEST(ByteBpe, TakesSpecialTokensInTextsAsText) {
  const ByteBpe model = tiny_model();
  const int32_t english = *model.find("<|en|>");
  EXPECT_TRUE(model.is_special(english));
  const Labels labels = labels_of(model, "<|en|> a");
  EXPECT_EQ(std::ranges::find(labels, english), labels.end());
  EXPECT_EQ(model.decode(labels), "<|en|> a");
  EXPECT_EQ(model.decode(Labels{english, 'a', *model.find("<|endoftext|>")}), "a");
}

TEST(ByteBpe, EncodesLongWordsInTime) {
  const ByteBpe model = tiny_model();
  std::string text;
  while (text.size() < 1'000'000) text += "abcab";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(model.decode(labels_of(model, text)), text);
  // It takes about 0.4 s; without the order of candidates it would take hours.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(ByteBpe, NamesBytesThatTheVocabularyLacks) {
  const TempFolder folder;
  folder.write("merges.txt", "#version: 0.2\n");
  const ByteBpe model = ByteBpe::read(folder.write("vocab.json", R"({"a": 0, "Å": 1})"));
  std::vector<std::string> unknown;
  EXPECT_EQ(model.encode("aża bb", unknown), (Labels{0, 1, 0}));
  EXPECT_EQ(unknown, (std::vector<std::string>{"ż", " ", "b"}));
}

TEST(ByteBpe, RefusesTextThatIsNotUtf8) {
  std::vector<std::string> unknown;
  EXPECT_PRED2(contains, message_of<DataError>([&] { tiny_model().encode("\xFF", unknown); }),
               "not UTF-8");
}

TEST(ByteBpe, AddsASpaceWhereTheFilesSaySo) {
  const TempFolder folder;
  folder.write("tokenizer_config.json", R"({"add_prefix_space": true})");
  const ByteBpe model = ByteBpe::read(write_byte_bpe(folder));
  EXPECT_EQ(labels_of(model, "ab"), Labels{260});
  EXPECT_EQ(labels_of(model, " ab"), Labels{260});
  EXPECT_EQ(labels_of(model, ""), Labels{});
}

TEST(ByteBpe, ReadsATokenizerJson) {
  const TempFolder folder;
  const ByteBpe model =
      ByteBpe::read(folder.write("tokenizer.json", test::tiny_tokenizer_json().dump()));
  EXPECT_EQ(model.size(), 263);
  EXPECT_EQ(model.end(), 262);
  EXPECT_EQ(labels_of(model, " abc"), (Labels{32, 257}));
  json older = test::tiny_tokenizer_json();
  for (json& merge : older["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  const ByteBpe same = ByteBpe::read(folder.write("older/tokenizer.json", older.dump()));
  EXPECT_EQ(same.fingerprint(), model.fingerprint());
}

TEST(ByteBpe, IsATokenizer) {
  const TempFolder folder, copy;
  test::write_tiny_whisper(folder);
  const Tokenizer tokenizer = Tokenizer::read(folder.path(), {});
  ASSERT_NE(tokenizer.byte_bpe(), nullptr);
  const int32_t end = *tokenizer.byte_bpe()->find("<|endoftext|>");
  EXPECT_EQ(tokenizer.size(), 273);
  EXPECT_EQ(tokenizer.blank(), end);
  EXPECT_EQ(tokenizer.end(), end);
  EXPECT_EQ(tokenizer.unknown(), std::nullopt);
  EXPECT_EQ(tokenizer.encode("  abc   abc ").labels, (Labels{257, 32, 257}));
  EXPECT_EQ(tokenizer.decode(Labels{32, 257, end, 32}), "abc");
  EXPECT_EQ(tokenizer.piece(259), " a");
  EXPECT_EQ(tokenizer.piece(end), "");

  tokenizer.write(copy.path());
  for (const char* name : {"vocab.json", "merges.txt", "added_tokens.json", "normalizer.json"})
    EXPECT_EQ(test::content_of(copy.path() / name), test::content_of(folder.path() / name));
  EXPECT_EQ(Tokenizer::read(copy.path(), {}).fingerprint(), tokenizer.fingerprint());
}

TEST(ByteBpe, HasABlankAfterTheLastEntryIfItHasNoPadding) {
  const TempFolder folder;
  Tokenizer tokenizer = Tokenizer::read(write_byte_bpe(folder), {});
  EXPECT_EQ(tokenizer.size(), 263);
  EXPECT_EQ(tokenizer.blank(), 262);
  EXPECT_EQ(tokenizer.end(), std::nullopt);
  EXPECT_EQ(tokenizer.decode(Labels{262, 'a', 262}), "a");
  tokenizer.widen(270);
  EXPECT_EQ(tokenizer.size(), 270);
  EXPECT_EQ(tokenizer.decode(Labels{269, 'a'}), "a");
  EXPECT_EQ(tokenizer.fingerprint(), Tokenizer::read(folder.path(), {}).fingerprint());
}

TEST(ByteBpe, DifferentOnesHaveDifferentFingerprints) {
  const TempFolder folder;
  const uint64_t fingerprint = ByteBpe::read(write_byte_bpe(folder)).fingerprint();
  folder.write("merges.txt", "a b\n");
  EXPECT_NE(ByteBpe::read(folder.path() / "vocab.json").fingerprint(), fingerprint);
}

// --- files that are broken or of another kind

std::string refusal_of(const TempFolder& folder, const char* name = "vocab.json") {
  return message_of<Error>([&] { ByteBpe::read(folder.path() / name); });
}

TEST(ByteBpeFiles, BrokenOnesAreRefused) {
  const TempFolder folder;
  write_byte_bpe(folder);
  const auto with_merges = [&](const char* lines) {
    folder.write("merges.txt", lines);
    return refusal_of(folder);
  };
  EXPECT_PRED2(contains, with_merges("a b c\n"), "the merge 'a b c'");
  EXPECT_PRED2(contains, with_merges("abc\n"), "two entries with a space");
  EXPECT_PRED2(contains, with_merges("a d\n"), "not all are in the vocabulary");
  folder.write("merges.txt", "#version: 0.2\r\na b\r\n");
  EXPECT_EQ(labels_of(ByteBpe::read(folder.path() / "vocab.json"), "ab"), Labels{256});
  for (const auto& [text, expected] :
       {std::pair("[1]", "not a JSON object"), std::pair("{\"a\": -1}", "the number -1"),
        std::pair("{\"a\": 0, \"b\": 0}", "with the number 0"), std::pair("{}", "empty"),
        std::pair("{\"a\": 4194304}", "a whole number from 0"),
        std::pair("{\"a\": \"b\"}", "the number \"b\"")}) {
    folder.write("vocab.json", text);
    EXPECT_PRED2(contains, refusal_of(folder), expected);
  }
}

TEST(ByteBpeFiles, CompanionsThatContradictAreRefused) {
  const TempFolder folder;
  write_byte_bpe(folder);
  folder.write("added_tokens.json", R"({"<|x|>": 3})");
  EXPECT_PRED2(contains, refusal_of(folder), "and '<|x|>' with the number 3");
  folder.write("added_tokens.json", R"({"<|x|>": 300, "word": 301})");
  EXPECT_PRED2(contains, refusal_of(folder), "the added token 'word'");
  folder.write("added_tokens.json", R"({"<|x|>": 300})");
  folder.write("tokenizer_config.json", R"({"pad_token": "!"})");
  EXPECT_PRED2(contains, refusal_of(folder), "the special token '!', which texts are encoded as");
  folder.write("tokenizer_config.json", R"({"pad_token": "<|x|>"})");
  const ByteBpe model = ByteBpe::read(folder.path() / "vocab.json");
  EXPECT_EQ(model.padding(), 300);
  EXPECT_EQ(model.size(), 301);
}

TEST(ByteBpeFiles, OtherFeaturesAreRefused) {
  const TempFolder folder;
  const auto with = [&](const char* path, const json& value) {
    json tokenizer = test::tiny_tokenizer_json();
    tokenizer[json::json_pointer(path)] = value;
    folder.write("tokenizer.json", tokenizer.dump());
    return refusal_of(folder, "tokenizer.json");
  };
  EXPECT_PRED2(contains, with("/normalizer", {{"type", "NFC"}}), "the normalizer NFC");
  EXPECT_PRED2(contains, with("/pre_tokenizer/use_regex", false), "does not split as GPT-2 does");
  EXPECT_PRED2(contains, with("/model/ignore_merges", true), "\"ignore_merges\": true");
  EXPECT_PRED2(contains, with("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix");
  EXPECT_PRED2(contains, with("/model/merges/0", 7), "the merge 7");
  const json sequence = {{"type", "Sequence"},
                         {"pretokenizers", {{{"type", "Digits"}}, {{"type", "ByteLevel"}}}}};
  EXPECT_PRED2(contains, with("/pre_tokenizer", sequence), "does not split as GPT-2 does");
}

TEST(ByteBpeFiles, AreToldFromOtherTokenizers) {
  const TempFolder folder;
  EXPECT_FALSE(is_byte_bpe(folder.write("vocab.json", R"({"<pad>": 0, "a": 1})")));
  folder.write("merges.txt", "a b\n");
  EXPECT_TRUE(is_byte_bpe(folder.path() / "vocab.json"));
  EXPECT_TRUE(is_byte_bpe(folder.write("my.json", test::tiny_tokenizer_json().dump())));
  json metaspace = test::tiny_tokenizer_json();
  metaspace["pre_tokenizer"] = {{"type", "Metaspace"}};
  EXPECT_FALSE(is_byte_bpe(folder.write("other.json", metaspace.dump())));
  EXPECT_FALSE(is_byte_bpe(folder.write("no.json", "[1, 2]")));
  EXPECT_FALSE(is_byte_bpe(folder.path() / "missing.json"));
  EXPECT_FALSE(is_byte_bpe(folder.path()));
}

}  // namespace
}  // namespace sotto::data
