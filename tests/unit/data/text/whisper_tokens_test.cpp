// Whisper's special tokens, prompts and languages. `make oracle` compares all prompts of the real
// vocabularies with those of transformers.
#include "sotto/data/text/whisper_tokens.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/byte_vocabulary.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

using Labels = std::vector<int32_t>;

ByteBpe tiny_whisper() {
  const TempFolder folder;
  return ByteBpe::read(test::write_tiny_whisper(folder));
}

// The numbers of the first token, <|endoftext|>, and those after it.
constexpr int32_t kEnd = 262;

TEST(WhisperTokens, AreFoundByTheirText) {
  const WhisperTokens tokens(tiny_whisper());
  EXPECT_TRUE(tokens.is_multilingual());
  EXPECT_EQ(tokens.end(), kEnd);
  EXPECT_EQ(tokens.start(), kEnd + 1);
  EXPECT_EQ(tokens.previous(), kEnd + 8);
  EXPECT_EQ(tokens.no_speech(), kEnd + 9);
  EXPECT_EQ(tokens.no_timestamps(), kEnd + 10);
  EXPECT_EQ(tokens.size(), kEnd + 11 + 1'501);
  EXPECT_EQ(tokens.languages(),
            (std::map<std::string, int32_t>{{"en", kEnd + 2}, {"ms", kEnd + 4}, {"pl", kEnd + 3}}));
}

TEST(WhisperTokens, MakePromptsTargetsAndInputs) {
  const WhisperTokens tokens(tiny_whisper());
  EXPECT_EQ(tokens.prompt({.language = "polish"}), (Labels{kEnd + 3, kEnd + 6, kEnd + 10}));
  EXPECT_EQ(tokens.prompt({.language = "EN", .task = WhisperTask::kTranslate}),
            (Labels{kEnd + 2, kEnd + 5, kEnd + 10}));
  EXPECT_EQ(tokens.prompt({.language = "ms", .has_timestamps = true}),
            (Labels{kEnd + 4, kEnd + 6}));
  const Labels targets = tokens.targets({.language = "pl"}, Labels{7, 8});
  EXPECT_EQ(targets, (Labels{kEnd + 3, kEnd + 6, kEnd + 10, 7, 8, kEnd}));
  EXPECT_EQ(tokens.decoder_input(targets), (Labels{kEnd + 1, kEnd + 3, kEnd + 6, kEnd + 10, 7, 8}));
}

TEST(WhisperTokens, CountTimestampsInStepsOf20Milliseconds) {
  const WhisperTokens tokens(tiny_whisper());
  const int32_t first = kEnd + 11;
  EXPECT_EQ(tokens.timestamp(0.0), first);
  EXPECT_EQ(tokens.timestamp(1.08), first + 54);
  EXPECT_EQ(tokens.timestamp(30.0), first + 1'500);
  EXPECT_DOUBLE_EQ(tokens.seconds_of(first + 54).value(), 1.08);
  EXPECT_EQ(tokens.seconds_of(first - 1), std::nullopt);
  EXPECT_EQ(tokens.seconds_of(first + 1'501), std::nullopt);
  EXPECT_PRED2(contains, message_of<DataError>([&] { tokens.timestamp(30.1); }), "0 to 30 s");
  EXPECT_PRED2(contains, message_of<DataError>([&] { tokens.timestamp(-0.1); }), "0 to 30 s");
}

TEST(WhisperTokens, RefuseUnknownLanguagesWithSimilarNames) {
  const WhisperTokens tokens(tiny_whisper());
  const auto refusal = [&](const char* name) {
    return message_of<ConfigError>([&] { tokens.language(name); });
  };
  EXPECT_PRED2(contains, refusal("iban"), "'iban', which it does not know");
  EXPECT_PRED2(contains, refusal("iban"), "data.language: ms");
  EXPECT_PRED2(contains, refusal("mala"), "malay (ms)");
  EXPECT_PRED2(contains, refusal("plish"), "polish (pl)");
  EXPECT_PRED2(contains, refusal(""), "no language");
  // Whisper knows it, this vocabulary does not.
  EXPECT_PRED2(contains, refusal("cantonese"), "one of its 3 languages");
}

TEST(WhisperTokens, KnowOtherNamesOfLanguages) {
  const TempFolder folder;
  nlohmann::json added;
  for (const std::string& token : test::tiny_whisper_tokens())
    added[token == "<|pl|>" ? "<|my|>" : token] = 262 + added.size();
  folder.write("added_tokens.json", added.dump());
  const WhisperTokens tokens(ByteBpe::read(test::write_byte_bpe(folder)));
  EXPECT_EQ(tokens.language("Burmese"), kEnd + 3);
  EXPECT_EQ(tokens.language("myanmar"), kEnd + 3);
}

// The vocabulary of GPT-2 has its end of text at 50256; its files name languages that its networks
// never saw.
ByteBpe english_alone() {
  const TempFolder folder;
  nlohmann::json added;
  for (const std::string& token : test::tiny_whisper_tokens()) added[token] = 50'256 + added.size();
  folder.write("added_tokens.json", added.dump());
  return ByteBpe::read(test::write_byte_bpe(folder));
}

TEST(WhisperTokens, OfEnglishAloneHaveNoLanguageOrTask) {
  const WhisperTokens tokens(english_alone());
  EXPECT_FALSE(tokens.is_multilingual());
  EXPECT_EQ(tokens.end(), 50'256);
  EXPECT_EQ(tokens.prompt({}), Labels{50'266});
  EXPECT_EQ(tokens.prompt({.language = "english"}), Labels{50'266});
  EXPECT_EQ(tokens.prompt({.has_timestamps = true}), Labels{});
  EXPECT_EQ(tokens.decoder_input(tokens.targets({}, Labels{5})), (Labels{50'257, 50'266, 5}));
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { tokens.prompt({.language = "pl"}); }),
               "'pl' for a model of English alone");
  EXPECT_PRED2(contains,
               message_of<ConfigError>([&] { tokens.prompt({.task = WhisperTask::kTranslate}); }),
               "translate for a model of English alone");
}

TEST(WhisperTokens, AnotherVocabularyIsRefused) {
  const TempFolder folder;
  const ByteBpe plain = ByteBpe::read(test::write_byte_bpe(folder));
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { WhisperTokens tokens(plain); }),
               "a vocabulary of 262 entries without <|startoftranscript|>");
}

}  // namespace
}  // namespace sotto::data
