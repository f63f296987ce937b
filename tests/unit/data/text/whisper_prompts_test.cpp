// The labels before a text, and what a manifest may ask of a network that has them.
#include "sotto/data/text/whisper_prompts.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/data/batch/dataset.h"
#include "support/byte_vocabulary.h"
#include "support/thrown.h"
#include "support/wav_bytes.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

using PromptLabels = std::vector<int32_t>;

constexpr PromptRules kRules{
    .numbers = {.vocabulary = 1'774, .start = 263, .end = 262, .multilingual = true},
    .max_tokens = 12};

Tokenizer tiny_whisper_tokenizer() {
  const TempFolder folder;
  return Tokenizer::read(test::write_tiny_whisper(folder), {});
}

WhisperPrompts tiny_prompts(const PromptOptions& options = {}, const PromptRules& rules = kRules) {
  return {tiny_whisper_tokenizer(), rules, options};
}

TEST(WhisperPrompts, AreOfTheRunOrOfTheUtterance) {
  EXPECT_EQ(tiny_prompts().of("pl"), (PromptLabels{265, 268, 272}));
  EXPECT_EQ(tiny_prompts({.language = "Malay", .task = WhisperTask::kTranslate}).of("pl"),
            (PromptLabels{266, 267, 272}));
  EXPECT_EQ(tiny_prompts().max_labels(), 11);
  EXPECT_NE(tiny_prompts().fingerprint(), tiny_prompts({.language = "pl"}).fingerprint());
}

TEST(WhisperPrompts, RefuseUnknownLanguagesWithSimilarOnes) {
  EXPECT_PRED2(contains, message_of<ConfigError>([] { tiny_prompts({.language = "polnish"}); }),
               "polish (pl)");
  EXPECT_PRED2(contains, message_of<ConfigError>([] { tiny_prompts().of(""); }), "no language");
}

TEST(WhisperPrompts, RefuseOtherTokenizers) {
  PromptRules rules = kRules;
  rules.numbers.vocabulary = 1'773;
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { tiny_prompts({}, rules); }),
               "1774 entries. Expected 1773");
  rules = kRules;
  rules.numbers.multilingual = false;
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { tiny_prompts({}, rules); }),
               "a multilingual vocabulary that starts a transcript with 263");
  const Tokenizer characters(Vocabulary::from_texts({"ab"}), {});
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { WhisperPrompts(characters, kRules, {}); }),
               "not a byte-level BPE");
}

// Manifests of recordings of half a second, with these further keys.
class PromptedCorpus {
 public:
  explicit PromptedCorpus(const std::vector<std::string>& keys) {
    folder_.write("a.wav", test::wav_bytes(8'000, 0.1));
    std::string lines;
    for (const std::string& key : keys)
      lines += R"({"audio_filepath": "a.wav", "duration": 0.5, )" + key + "}\n";
    manifest_ = folder_.write("m.jsonl", lines);
  }

  Dataset open(DatasetOptions options, const PromptOptions& prompts = {}) const {
    options.prompts = std::make_shared<const WhisperPrompts>(tiny_prompts(prompts));
    return Dataset(Manifest::read(manifest_), tiny_whisper_tokenizer(), options);
  }
  std::string refusal(const DatasetOptions& options) const {
    return message_of<DataError>([&] { open(options); });
  }

 private:
  TempFolder folder_;
  std::filesystem::path manifest_;
};

TEST(PromptedDataset, LabelsBeginWithThePrompt) {
  const PromptedCorpus corpus({R"("text": "abc", "lang": "pl")", R"("text": "b", "lang": "en")"});
  const Dataset dataset = corpus.open({});
  EXPECT_EQ(dataset.labels_of(0), (PromptLabels{265, 268, 272, 257}));
  EXPECT_EQ(dataset.size_of(0).labels, 4);
  const auto loaded = std::get<Example>(dataset.load(1, 0));
  EXPECT_EQ(loaded.labels, (PromptLabels{264, 268, 272, 98}));
  EXPECT_EQ(loaded.reference, "b");
  // One language for all.
  EXPECT_EQ(corpus.open({}, {.language = "ms"}).labels_of(1), (PromptLabels{266, 268, 272, 98}));
}

TEST(PromptedDataset, UnknownLanguagesAreRefusedByLine) {
  const PromptedCorpus corpus(
      {R"("text": "b", "lang": "en")", R"("text": "b", "lang": "iba")", R"("text": "b")"});
  EXPECT_PRED2(contains, corpus.refusal({}), "line 2 (a.wav)");
  EXPECT_PRED2(contains, corpus.refusal({}), "'iba', which it does not know");
  EXPECT_PRED2(contains, corpus.refusal({}), "--set data.broken=skip");
  const Dataset skipping = corpus.open({.broken = Policy::kSkip});
  EXPECT_EQ(skipping.num_items(), 1);
  EXPECT_EQ(skipping.num_skipped(), 2);
}

// Eight tokens, the prompt and the end are all that twelve positions hold.
TEST(PromptedDataset, TextsOfTooManyTokensAreRefusedByLine) {
  const PromptedCorpus fitting({R"("text": "xyxyxyxy", "lang": "en")"});
  EXPECT_EQ(fitting.open({}).size_of(0).labels, 11);
  const PromptedCorpus corpus(
      {R"("text": "x", "lang": "en")", R"("text": "xyxyxyxyx", "lang": "en")"});
  EXPECT_PRED2(contains, corpus.refusal({}),
               "line 2 (a.wav): a text of 9 tokens. Expected at most 8, for the model");
  EXPECT_EQ(corpus.open({.broken = Policy::kSkip}).num_items(), 1);
}

TEST(PromptedDataset, UtterancesBeyondTheWindowFollowTooLong) {
  const PromptedCorpus corpus({R"("text": "x", "lang": "en")"});
  EXPECT_EQ(corpus.open({.max_rows = 8'000}).size_of(0).rows, 8'000);
  EXPECT_PRED2(contains, corpus.refusal({.max_rows = 4'000, .too_long = Policy::kError}),
               "line 1 (a.wav): 0.5 s. Expected at most 0.25 s, the window of the model");
  EXPECT_PRED2(contains, corpus.refusal({.max_rows = 4'000}), "all 1 were skipped");
}

}  // namespace
}  // namespace sotto::data
