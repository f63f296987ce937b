// A vocab.json with the files of transformers beside it. That texts get the same labels as there is
// in tests/oracle/tokenizer_oracle_test.cpp; here is what those files cannot ask for.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "sotto/data/text/tokenizer.h"
#include "support/mutator.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using nlohmann::json;
using test::contains;
using test::message_of;
using test::TempFolder;

using Labels = std::vector<int32_t>;
using Files = std::map<std::string, json>;

const json kEntries = {{"<pad>", 0}, {"|", 1}, {"a", 2}, {"b", 3}, {"<unk>", 4}, {"[PAD]", 5}};
const json kHead = {{"model_type", "wav2vec2"},
                    {"architectures", {"Wav2Vec2ForCTC"}},
                    {"vocab_size", 6},
                    {"pad_token_id", 0}};

json with(json object, const char* key, const json& value) {
  object[key] = value;
  return object;
}

void write_files(const TempFolder& folder, const Files& files) {
  for (const auto& [name, content] : files) folder.write(name, content.dump());
}

Vocabulary read_files(const Files& files) {
  const TempFolder folder;
  write_files(folder, files);
  return Vocabulary::read(folder.path() / "vocab.json");
}

TEST(VocabularyFiles, BlankComesFromTheTokenizerOrElseTheModel) {
  EXPECT_EQ(read_files({{"vocab.json", kEntries}}).blank(), 0);
  EXPECT_EQ(
      read_files({{"vocab.json", kEntries}, {"tokenizer_config.json", {{"pad_token", "[PAD]"}}}})
          .blank(),
      5);
  EXPECT_EQ(read_files({{"vocab.json", kEntries}, {"config.json", with(kHead, "pad_token_id", 5)}})
                .blank(),
            5);
  // Whatever its name is.
  EXPECT_EQ(read_files({{"vocab.json", kEntries}, {"config.json", with(kHead, "pad_token_id", 3)}})
                .blank(),
            3);
  // A checkpoint of pretraining has no head, and says nothing of a blank.
  json pretraining = with(kHead, "pad_token_id", 3);
  pretraining["architectures"] = {"Wav2Vec2ForPreTraining"};
  EXPECT_EQ(read_files({{"vocab.json", kEntries}, {"config.json", pretraining}}).blank(), 0);
  // Nor does a head of another size, which is not kept.
  EXPECT_EQ(read_files({{"vocab.json", kEntries},
                        {"config.json", with(with(kHead, "pad_token_id", 3), "vocab_size", 4)}})
                .blank(),
            0);
}

TEST(VocabularyFiles, HeadLargerThanTheVocabularyIsKept) {
  const Vocabulary vocabulary =
      read_files({{"vocab.json", kEntries}, {"config.json", with(kHead, "vocab_size", 9)}});
  EXPECT_EQ(vocabulary.size(), 9);
  EXPECT_EQ(vocabulary.decode(Labels{2, 8, 3}), "ab");
  // Added tokens are part of it; those beyond it are not, and cannot be labels.
  const json added = {{"<s>", 6}, {"xy", 7}, {"</s>", 8}};
  const Vocabulary with_added = read_files({{"vocab.json", kEntries},
                                            {"added_tokens.json", added},
                                            {"config.json", with(kHead, "vocab_size", 8)}});
  EXPECT_EQ(with_added.size(), 8);
  EXPECT_EQ(with_added.encode("axyb").labels, (Labels{2, 7, 3}));
  const Vocabulary::Encoded encoded = with_added.encode("a</s><pad>a");
  EXPECT_EQ(encoded.unknown, (std::vector<std::string>{"</s>", "<pad>"}));
  EXPECT_EQ(encoded.labels, (Labels{2, 4, 4, 2}));
  // Without a network beside it there is one entry for each.
  EXPECT_EQ(read_files({{"vocab.json", kEntries}, {"added_tokens.json", added}}).size(), 9);
}

TEST(VocabularyFiles, RoundTripThroughACheckpoint) {
  const TempFolder folder;
  write_files(folder,
              {{"vocab.json", kEntries},
               {"tokenizer_config.json", {{"pad_token", "[PAD]"}, {"word_delimiter_token", "b"}}},
               {"added_tokens.json", {{"xy", 6}}},
               {"config.json", with(with(kHead, "vocab_size", 9), "pad_token_id", 5)}});
  const TextRules rules{.unicode = UnicodeForm::kNone};
  const Tokenizer tokenizer = Tokenizer::read(folder.path(), rules);
  const TempFolder checkpoint;
  tokenizer.write(checkpoint.path());
  Tokenizer read = Tokenizer::read(checkpoint.path(), rules);
  EXPECT_EQ(read.blank(), 5);
  EXPECT_EQ(read.fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(read.encode("a xy").labels, (Labels{2, 3, 6}));
  EXPECT_EQ(read.size(), 7);
  read.widen(9);
  EXPECT_EQ(read.size(), 9);
  EXPECT_EQ(read.fingerprint(), tokenizer.fingerprint());
}

// Exports name the blank as unk_token if the vocabulary has no unknown entry, but a blank is not a
// label.
TEST(VocabularyFiles, BlankIsNotTheUnknownEntry) {
  const json entries = {{"<pad>", 0}, {"|", 1}, {"a", 2}, {"b", 3}};
  const TempFolder folder;
  write_files(folder,
              {{"vocab.json", entries},
               {"tokenizer_config.json", {{"pad_token", "<pad>"}, {"unk_token", "<pad>"}}}});
  const Tokenizer tokenizer = Tokenizer::read(folder.path(), {});
  EXPECT_EQ(tokenizer.unknown(), std::nullopt);
  const Tokenizer::Encoded encoded = tokenizer.encode("a?b");
  EXPECT_EQ(encoded.labels, (Labels{2, 3}));
  EXPECT_EQ(encoded.unknown, std::vector<std::string>{"?"});
  // What is written is what was read.
  const TempFolder checkpoint;
  tokenizer.write(checkpoint.path());
  EXPECT_EQ(json::parse(test::content_of(checkpoint.path() / "tokenizer_config.json"))["unk_token"],
            "<pad>");
  EXPECT_EQ(Tokenizer::read(checkpoint.path(), {}).unknown(), std::nullopt);
}

// With do_lower_case, labels are in upper case and decoded text is in lower case.
TEST(VocabularyFiles, ReferencesAreNormalisedLikeDecodedText) {
  const json entries = {{"<pad>", 0}, {"|", 1}, {"A", 2}, {"B", 3}, {"S", 4}};
  const TempFolder folder;
  const json config = {{"pad_token", "<pad>"}, {"unk_token", nullptr}, {"do_lower_case", true}};
  write_files(folder, {{"vocab.json", entries}, {"tokenizer_config.json", config}});
  const TextRules rules{.unicode = UnicodeForm::kNone};
  const Tokenizer tokenizer = Tokenizer::read(folder.path(), rules);
  const Tokenizer::Encoded encoded = tokenizer.encode("Ab BA");
  EXPECT_EQ(tokenizer.decode(encoded.labels), "ab ba");
  EXPECT_EQ(tokenizer.decoded_form(encoded.text), "ab ba");
  // Unknown characters stay in it.
  EXPECT_EQ(tokenizer.decoded_form("A?B"), "a?b");
  folder.write("tokenizer_config.json", with(with(config, "replace_word_delimiter_char", "_"),
                                             "clean_up_tokenization_spaces", true)
                                            .dump());
  const Tokenizer cleaning = Tokenizer::read(folder.path(), rules);
  EXPECT_EQ(cleaning.decode(cleaning.encode("A B").labels), "a_b");
  EXPECT_EQ(cleaning.decoded_form("A B"), "a_b");
  // Without settings a text is as it is.
  EXPECT_EQ(Tokenizer(Vocabulary::from_texts({"ab"}), rules).decoded_form("Ab"), "Ab");
}

// A blank that is in no file has the next number, as in the head.
TEST(VocabularyFiles, UnlistedBlankIsPartOfTheHead) {
  const TempFolder folder;
  write_files(folder, {{"vocab.json", {{"a", 0}, {"|", 1}, {"<unk>", 2}, {"<s>", 3}}},
                       {"tokenizer_config.json", {{"pad_token", "<p>"}, {"eos_token", nullptr}}},
                       {"config.json", with(with(kHead, "vocab_size", 5), "pad_token_id", 4)}});
  const Tokenizer tokenizer = Tokenizer::read(folder.path(), {});
  EXPECT_EQ(tokenizer.blank(), 4);
  const TempFolder checkpoint;
  tokenizer.write(checkpoint.path());
  EXPECT_EQ(Tokenizer::read(checkpoint.path(), {}).blank(), 4);
  folder.write("config.json", with(kHead, "vocab_size", 4).dump());
  EXPECT_PRED2(contains, message_of<DataError>([&] { Tokenizer::read(folder.path(), {}); }),
               "pad_token '<p>', which is not an entry");
}

// A vocabulary of corpus characters is read as before: `|` and <pad> in a text are not entries.
TEST(VocabularyFiles, OfOurOwnCheckpointsAreUnchanged) {
  const TempFolder folder;
  Vocabulary::from_texts({"ab"}).write(folder.path() / "vocab.json");
  folder.write("config.json", with(kHead, "vocab_size", 4).dump());
  folder.write("state.json", "{}");
  const Vocabulary vocabulary = Vocabulary::read(folder.path() / "vocab.json");
  EXPECT_EQ(vocabulary.encode("a|b").unknown, std::vector<std::string>{"|"});
  EXPECT_EQ(vocabulary.encode("<pad>").unknown.size(), 4u);  // < p d >
  vocabulary.write(folder.path() / "vocab.json");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "tokenizer_config.json"));
}

TEST(VocabularyFiles, RandomDamageGivesErrorsOrVocabularies) {
  const Files files = {{"vocab.json", kEntries},
                       {"tokenizer_config.json",
                        {{"pad_token", "[PAD]"},
                         {"do_lower_case", true},
                         {"extra_special_tokens", {"<x>"}},
                         {"added_tokens_decoder", {{"6", {{"content", "xy"}, {"lstrip", true}}}}}}},
                       {"config.json", with(with(kHead, "vocab_size", 9), "pad_token_id", 5)}};
  int num_read = 0, num_refused = 0;
  for (uint64_t round = 0; round < 400; ++round) {
    test::Mutator mutator(round);
    const TempFolder folder;
    const uint64_t broken = mutator.below(files.size());
    for (uint64_t i = 0; const auto& [name, content] : files)
      folder.write(name, i++ == broken ? mutator.mutate(content.dump()) : content.dump());
    try {
      const Vocabulary vocabulary = Vocabulary::read(folder.path() / "vocab.json");
      for (const int32_t label : vocabulary.encode("a xy b<x>").labels)
        EXPECT_TRUE(label >= 0 && label < vocabulary.size() && label != vocabulary.blank());
      ++num_read;
    } catch (const DataError&) {
      ++num_refused;
    } catch (const ConfigError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_read, 10);
  EXPECT_GT(num_refused, 100);
}

TEST(VocabularyFiles, UnsupportedSettingsAreRefusedByName) {
  const auto refusal = [](const Files& files) {
    return message_of<Error>([&] { read_files(files); });
  };
  const auto of_config = [&](const char* key, const json& value) {
    return refusal({{"vocab.json", kEntries}, {"tokenizer_config.json", {{key, value}}}});
  };
  EXPECT_PRED2(contains, of_config("tokenizer_class", "Wav2Vec2PhonemeCTCTokenizer"),
               "\"tokenizer_class\": \"Wav2Vec2PhonemeCTCTokenizer\". Expected "
               "Wav2Vec2CTCTokenizer");
  EXPECT_PRED2(contains, of_config("split_special_tokens", true), "\"split_special_tokens\": true");
  EXPECT_PRED2(contains, of_config("word_delimiter_token", nullptr),
               "\"word_delimiter_token\": null");
  EXPECT_PRED2(contains, of_config("word_delimiter_token", "<sp>"), "word_delimiter_token '<sp>'");
  EXPECT_PRED2(contains, of_config("pad_token", "<none>"),
               "pad_token '<none>', which is not an entry");
  EXPECT_PRED2(contains, of_config("pad_token", 3), "\"pad_token\": 3. Expected a token");
  EXPECT_PRED2(contains, of_config("do_lower_case", "yes"), "\"do_lower_case\": \"yes\"");
  EXPECT_PRED2(contains, of_config("target_lang", "eng"), "target_lang in tokenizer_config.json");
  EXPECT_PRED2(contains, of_config("added_tokens_decoder", {{"2", {{"content", "x"}}}}),
               "the added token 'x' with the number 2. Expected another one: that is the number of "
               "'a'");
  EXPECT_PRED2(contains, refusal({{"vocab.json", kEntries}, {"added_tokens.json", {{"a", 9}}}}),
               "its number in this file, 2");
  EXPECT_PRED2(contains,
               refusal({{"vocab.json", kEntries}, {"added_tokens.json", {{"x", 1LL << 40}}}}),
               "a number from 0 to 1048575");
  EXPECT_PRED2(contains,
               refusal({{"vocab.json", kEntries},
                        {"tokenizer_config.json", {{"pad_token", "[PAD]"}}},
                        {"config.json", kHead}}),
               "pad_token '[PAD]' with the number 5, and \"pad_token_id\": 0 in config.json");
  EXPECT_PRED2(
      contains,
      refusal({{"vocab.json", kEntries}, {"config.json", with(kHead, "pad_token_id", 17)}}),
      "\"pad_token_id\": 17 in config.json");
  const json languages = {{"eng", kEntries}, {"fra", kEntries}};
  EXPECT_PRED2(contains, refusal({{"vocab.json", languages}}),
               "for each of 2 languages (eng, fra)");
  EXPECT_PRED2(
      contains,
      refusal({{"vocab.json", languages}, {"tokenizer_config.json", {{"target_lang", "pol"}}}}),
      "\"target_lang\" in tokenizer_config.json with one of them, not 'pol'");
}

}  // namespace
}  // namespace sotto::data
