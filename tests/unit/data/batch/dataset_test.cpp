#include "sotto/data/batch/dataset.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "support/thrown.h"
#include "unit/data/batch/feature_corpus.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;

const std::vector<TestUtterance>& utterances() {
  static const std::vector<TestUtterance> all = {
      {.num_frames = 10, .text = "ab"},  {.num_frames = 300, .text = "a"},
      {.num_frames = 2, .text = "b"},    {.num_frames = 20, .text = ""},
      {.num_frames = 30, .text = "axy"}, {.num_frames = 200, .text = "x"},
  };
  return all;
}

Dataset dataset_of(const FeatureCorpus& corpus, const DatasetOptions& options) {
  return Dataset(corpus.manifest(), Tokenizer(Vocabulary::from_texts({"ab"}), {}), options);
}

// All that the options leave out is skipped, not refused.
DatasetOptions skipping() {
  return {.too_short = Policy::kSkip,
          .too_long = Policy::kSkip,
          .broken = Policy::kSkip,
          .unknown_text = Policy::kSkip};
}

std::string refusal_of(const DatasetOptions& options) {
  const FeatureCorpus corpus(utterances());
  return message_of<DataError>([&] { dataset_of(corpus, options); });
}

TEST(Dataset, TakesWhatTheOptionsAllow) {
  const FeatureCorpus corpus(utterances());
  DatasetOptions options = skipping();
  options.min_seconds = 0.05;
  options.max_seconds = 2.0;
  const Dataset dataset = dataset_of(corpus, options);
  EXPECT_EQ(dataset.utterances(), (std::vector<uint32_t>{0, 3}));
  EXPECT_EQ(dataset.lengths(), (std::vector<float>{0.1f, 0.2f}));
  EXPECT_EQ(dataset.labels_of(0), (std::vector<int32_t>{2, 3}));
  ASSERT_EQ(dataset.skipped().size(), 4u);
  EXPECT_EQ(dataset.skipped()[0].utterance, 1);
  EXPECT_EQ(dataset.skipped()[0].reason, "line 2 (x.f16): 3 s, expected at most 2 s, max_seconds");
  EXPECT_EQ(dataset.skipped()[1].reason,
            "line 3 (x.f16): 0.02 s, expected at least 0.05 s, min_seconds");
  EXPECT_EQ(dataset.skipped()[2].reason,
            "line 5 (x.f16): unknown characters 'x', 'y' in its text, expected characters of the "
            "tokenizer");
}

TEST(Dataset, BoundsAreInclusive) {
  const FeatureCorpus corpus(utterances());
  DatasetOptions options = skipping();
  options.min_seconds = 0.1;
  options.max_seconds = 3.0;
  EXPECT_EQ(dataset_of(corpus, options).utterances(), (std::vector<uint32_t>{0, 1, 3}));
}

TEST(Dataset, RefusesTooLong) {
  DatasetOptions options = skipping();
  options.max_seconds = 1.5;
  options.too_long = Policy::kError;
  EXPECT_PRED2(contains, refusal_of(options),
               "m.jsonl: line 2 (x.f16): 3 s. Expected at most 1.5 s, max_seconds. 2 utterances "
               "affected. --set data.too_long=skip skips such utterances.");
}

TEST(Dataset, RefusesTooShort) {
  DatasetOptions options = skipping();
  options.min_seconds = 0.05;
  options.too_short = Policy::kError;
  EXPECT_PRED2(contains, refusal_of(options),
               "line 3 (x.f16): 0.02 s. Expected at least 0.05 s, min_seconds. --set "
               "data.too_short=skip");
}

TEST(Dataset, RequiresTheRowsTheModelNeeds) {
  DatasetOptions options = skipping();
  options.min_rows = 15;
  const FeatureCorpus corpus(utterances());
  const Dataset dataset = dataset_of(corpus, options);
  EXPECT_EQ(dataset.utterances(), (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(dataset.skipped()[0].reason,
            "line 1 (x.f16): 10 frames, expected at least 15, for the model");
  options.too_short = Policy::kError;
  EXPECT_PRED2(contains, refusal_of(options), "line 1 (x.f16): 10 frames. Expected at least 15");
}

// More than a pack can count: 2^31 frames, or 55 hours at 16 kHz.
TEST(Dataset, RefusesUtterancesNoPackCanHold) {
  const test::TempFolder folder;
  const auto refusal = [&](const std::string& line) {
    const Manifest manifest = Manifest::read(folder.write("m.jsonl", line + "\n"));
    return message_of<DataError>(
        [&] { Dataset(manifest, Tokenizer(Vocabulary::from_texts({"a"}), {}), {}); });
  };
  EXPECT_PRED2(contains,
               refusal(R"({"feature_filepath": "x", "duration": 1, "text": "a", "feature_dim": 4, )"
                       R"("frame_offset": 0, "num_frames": 2147483648})"),
               "line 1 (x): 2147483648 frames. Expected at most 1073741824. --set data.broken=skip "
               "skips such utterances.");
  EXPECT_PRED2(contains, refusal(R"({"audio_filepath": "x", "duration": 2e5, "text": "a"})"),
               "line 1 (x): 3200000000 samples. Expected at most 1073741824.");
}

TEST(Dataset, RefusesUnknownTextUnlessToldToSkip) {
  EXPECT_PRED2(contains, refusal_of({}),
               "line 5 (x.f16): unknown characters 'x', 'y' in its text. Expected characters of "
               "the tokenizer. 2 utterances affected. --set data.unknown_text=skip");
}

TEST(Dataset, EmptyTextIsKeptUnlessToldOtherwise) {
  const FeatureCorpus corpus(utterances());
  DatasetOptions options = skipping();
  EXPECT_EQ(dataset_of(corpus, options).utterances(), (std::vector<uint32_t>{0, 1, 2, 3}));
  options.empty_text = Policy::kSkip;
  const Dataset dataset = dataset_of(corpus, options);
  EXPECT_EQ(dataset.utterances(), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(dataset.skipped()[0].reason, "line 4 (x.f16): an empty text, expected a transcript");
  options.empty_text = Policy::kError;
  EXPECT_PRED2(contains, refusal_of(options), "line 4 (x.f16): an empty text. Expected a");
}

TEST(Dataset, RefusesToBeEmpty) {
  DatasetOptions options = skipping();
  options.min_seconds = 100.0;
  EXPECT_PRED2(contains, refusal_of(options),
               "all 6 were skipped; the first: line 1 (x.f16): 0.1 s, expected at "
               "least 100 s, min_seconds. Expected at least one");
}

TEST(Dataset, LoadsFeaturesAndLabels) {
  const FeatureCorpus corpus({{.num_frames = 3, .text = "a"}, {.num_frames = 2, .text = "b a"}});
  const Dataset dataset(corpus.manifest(), Tokenizer(Vocabulary::from_texts({"ab"}), {}), {});
  const Example example = std::get<Example>(dataset.load(1, 0));
  EXPECT_EQ(example.utterance, 1);
  EXPECT_EQ(example.rows, 2);
  EXPECT_EQ(example.feature_dim, 2);
  EXPECT_EQ(example.values, (std::vector<float>{6, 7, 8, 9}));
  EXPECT_EQ(example.labels, (std::vector<int32_t>{3, 1, 2}));
}

// With do_lower_case hypotheses are in lower case: capitals of a reference would count as errors.
TEST(Dataset, ReferencesAreNormalisedLikeHypotheses) {
  const test::TempFolder folder;
  folder.write("vocab.json", R"({"<pad>": 0, "|": 1, "A": 2, "B": 3})");
  folder.write("tokenizer_config.json", R"({"pad_token": "<pad>", "do_lower_case": true})");
  const FeatureCorpus corpus({{.num_frames = 10, .text = "Ab BA"}});
  const Tokenizer tokenizer = Tokenizer::read(folder.path(), {});
  const Dataset dataset(corpus.manifest(), tokenizer, {});
  const Example example = std::get<Example>(dataset.load(0, 0));
  EXPECT_EQ(example.labels, (std::vector<int32_t>{2, 3, 1, 3, 2}));
  EXPECT_EQ(example.reference, tokenizer.decode(example.labels));
}

TEST(Dataset, BrokenFileIsAnErrorUnlessToldToSkip) {
  const FeatureCorpus corpus({{}, {.file = "gone.f16"}});
  const Tokenizer tokenizer(Vocabulary::from_texts({"a"}), {});
  const Dataset strict(corpus.manifest(), tokenizer, {});
  EXPECT_PRED2(contains, message_of<DataError>([&] { strict.load(1, 0); }),
               "gone.f16: No such file or directory");
  EXPECT_TRUE(std::holds_alternative<Example>(strict.load(0, 0)));
  const Dataset lenient(corpus.manifest(), tokenizer, {.broken = Policy::kSkip});
  const auto skipped = std::get<SkippedUtterance>(lenient.load(1, 0));
  EXPECT_EQ(skipped.utterance, 1);
  EXPECT_PRED2(contains, skipped.reason, "gone.f16: No such file or directory");
}

// 3 s with a pause before the last of its segments, between two short ones.
std::vector<TestUtterance> with_segments() {
  return {{.num_frames = 10, .text = "ab"},
          {.num_frames = 300,
           .text = "a b ab",
           .segments = R"([{"offset": 0, "duration": 1, "text": "a"},
                           {"offset": 1, "duration": 0.5, "text": "b"},
                           {"offset": 2, "duration": 1, "text": "ab"}])"},
          {.num_frames = 20, .text = "b"}};
}

std::vector<TestUtterance> on_one_line(std::vector<TestUtterance> utterances) {
  for (TestUtterance& utterance : utterances) std::erase(utterance.segments, '\n');
  return utterances;
}

DatasetOptions chunking(double max_seconds) {
  return {.max_seconds = max_seconds, .too_long = Policy::kChunk};
}

TEST(Dataset, CutsLongUtterancesAtSegments) {
  const FeatureCorpus corpus(on_one_line(with_segments()));
  const Dataset dataset = dataset_of(corpus, chunking(1.5));
  EXPECT_EQ(dataset.utterances(), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(dataset.num_skipped(), 0);
  ASSERT_EQ(dataset.num_items(), 4);
  EXPECT_EQ(dataset.lengths(), (std::vector<float>{0.1f, 0.2f, 1.5f, 1.0f}));

  const Example first = std::get<Example>(dataset.load(2, 0));
  EXPECT_EQ(first.utterance, 1);
  EXPECT_EQ(first.piece, 0);
  EXPECT_EQ(first.rows, 150);
  EXPECT_EQ(first.values.front(), 20.0f);  // behind ten frames of two
  EXPECT_EQ(first.reference, "a b");
  EXPECT_EQ(first.seconds, 1.5);
  const Example second = std::get<Example>(dataset.load(3, 0));
  EXPECT_EQ(second.utterance, 1);
  EXPECT_EQ(second.piece, 1);
  EXPECT_EQ(second.values.front(), 420.0f);
  EXPECT_EQ(second.labels, (std::vector<int32_t>{2, 3}));
  for (int64_t index = 0; index < dataset.num_items(); ++index) {
    const Example example = std::get<Example>(dataset.load(index, 0));
    EXPECT_EQ(dataset.size_of(index).rows, example.rows);
    EXPECT_EQ(dataset.size_of(index).labels, std::ssize(example.labels));
  }
}

TEST(Dataset, KeepsShorterUtterancesWhole) {
  const FeatureCorpus corpus(on_one_line(with_segments()));
  EXPECT_EQ(dataset_of(corpus, chunking(3.0)).utterances(), (std::vector<uint32_t>{0, 1, 2}));
}

TEST(Dataset, RefusesToCutWithoutUsableSegments) {
  EXPECT_PRED2(
      contains,
      refusal_of({.max_seconds = 2.5, .too_long = Policy::kChunk, .unknown_text = Policy::kSkip}),
      "line 2 (x.f16): 3 s without segments to cut it at. Expected segments: a list of "
      "offset, duration and text. --set data.too_long=skip");
  const FeatureCorpus corpus(on_one_line(with_segments()));
  EXPECT_PRED2(contains, message_of<DataError>([&] { dataset_of(corpus, chunking(0.9)); }),
               "line 2 (x.f16): a segment of 1 s. Expected at most 0.9 s, max_seconds");
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { dataset_of(corpus, chunking(0.0)); }),
               "too_long: chunk without max_seconds");
}

TEST(Dataset, PiecesWithoutTextFollowThePolicy) {
  std::vector<TestUtterance> utterances = on_one_line(with_segments());
  utterances[1].segments = R"([{"offset": 0, "duration": 1, "text": ""},)"
                           R"({"offset": 2, "duration": 1, "text": "ab"}])";
  const FeatureCorpus corpus(utterances);
  DatasetOptions options = chunking(1.5);
  EXPECT_EQ(dataset_of(corpus, options).num_items(), 4);
  options.empty_text = Policy::kSkip;
  const Dataset dataset = dataset_of(corpus, options);
  EXPECT_EQ(dataset.num_items(), 3);
  EXPECT_EQ(dataset.num_skipped(), 1);
  EXPECT_PRED2(contains, dataset.skipped()[0].reason, "an empty text in the piece from 0 s");
  options.empty_text = Policy::kError;
  EXPECT_PRED2(contains, message_of<DataError>([&] { dataset_of(corpus, options); }),
               "an empty text in the piece from 0 s");
}

// The text of the line is valid, that of a segment is not.
TEST(Dataset, PiecesWithUnknownCharactersFollowThePolicy) {
  std::vector<TestUtterance> utterances = on_one_line(with_segments());
  utterances[1].segments = R"([{"offset": 0, "duration": 1, "text": "ab"},)"
                           R"({"offset": 2, "duration": 1, "text": "axb"}])";
  const FeatureCorpus corpus(utterances);
  DatasetOptions options = chunking(1.5);
  options.unknown_text = Policy::kSkip;
  const Dataset dataset = dataset_of(corpus, options);
  EXPECT_EQ(dataset.num_items(), 3);
  EXPECT_EQ(dataset.num_skipped(), 1);
  ASSERT_EQ(dataset.skipped().size(), 1u);
  EXPECT_EQ(dataset.skipped()[0].utterance, 1);
  EXPECT_EQ(dataset.skipped()[0].reason,
            "line 2 (x.f16): unknown characters 'x' in the piece from 2 s, expected characters of "
            "the tokenizer");
  options.unknown_text = Policy::kError;
  EXPECT_PRED2(contains, message_of<DataError>([&] { dataset_of(corpus, options); }),
               "line 2 (x.f16): unknown characters 'x' in the piece from 2 s. Expected characters "
               "of the tokenizer. --set data.unknown_text=skip skips such utterances.");
}

TEST(DatasetOptions, AreReadByName) {
  const DatasetOptions options =
      read_overrides<DatasetOptions>({"max_seconds=20", "too_long=error", "empty_text=skip"});
  EXPECT_EQ(options.max_seconds, 20.0);
  EXPECT_EQ(options.too_long, Policy::kError);
  EXPECT_EQ(options.empty_text, Policy::kSkip);
  EXPECT_PRED2(contains,
               message_of<ConfigError>([] { read_overrides<DatasetOptions>({"broken=keep"}); }),
               "one of error, skip");
  EXPECT_PRED2(contains, message_of<ConfigError>([] {
                 read_overrides<DatasetOptions>({"min_seconds=3", "max_seconds=2"});
               }),
               "min_seconds 3 and max_seconds 2");
}

TEST(Dataset, LoadsAllOfAn4) {
  const char* data = std::getenv("SOTTO_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "SOTTO_TEST_DATA names no folder with an4_mfcc";
  const std::filesystem::path folder = std::filesystem::path(data) / "an4_mfcc";
  Manifest train = Manifest::read(folder / "train.jsonl");
  EXPECT_EQ(train.size(), 848);
  const Tokenizer tokenizer = Tokenizer::of_characters(train, {});
  EXPECT_EQ(tokenizer.size(), 28);  // blank, delimiter, a to z
  for (const char* name : {"dev.jsonl", "test.jsonl"}) {
    const Dataset dataset(Manifest::read(folder / name), tokenizer, {});
    float largest = 0.0f;
    for (const uint32_t utterance : dataset.utterances()) {
      const Example example = std::get<Example>(dataset.load(utterance, 0));
      EXPECT_EQ(example.values.size(), static_cast<size_t>(example.rows * 13));
      EXPECT_EQ(tokenizer.decode(example.labels), dataset.manifest().at(utterance).text);
      for (const float value : example.values) largest = std::max(largest, std::abs(value));
    }
    EXPECT_GT(largest, 5.0f);
    EXPECT_LT(largest, 17.3f);  // its README names 17.22
  }
}

}  // namespace
}  // namespace sotto::data
