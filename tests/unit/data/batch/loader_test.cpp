#include "sotto/data/batch/loader.h"

#include <gtest/gtest.h>

#include <chrono>

#include "sotto/core/error.h"
#include "sotto/data/batch/dataset.h"
#include "support/thrown.h"
#include "unit/data/batch/feature_corpus.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;

// What a test compares of a step.
std::string summary_of(const LoadedStep& step) {
  std::string text =
      std::to_string(step.position.epoch) + "." + std::to_string(step.position.step) + ":";
  for (const Example& example : step.examples)
    text += " " + std::to_string(example.utterance) + "/" + std::to_string(example.values[0]);
  for (const SkippedUtterance& skipped : step.skipped)
    text += " -" + std::to_string(skipped.utterance);
  return text;
}

std::vector<TestUtterance> many_utterances(int64_t count) {
  std::vector<TestUtterance> utterances;
  for (int64_t i = 0; i < count; ++i) utterances.push_back({.num_frames = 1 + i * 7 % 13});
  return utterances;
}

// A corpus with everything that loads it.
struct SampledCorpus {
  explicit SampledCorpus(const std::vector<TestUtterance>& utterances,
                         const DatasetOptions& options = {}, const char* batch = "4",
                         Curriculum curriculum = Curriculum::kShuffle)
      : corpus(utterances),
        dataset(corpus.manifest(), Tokenizer(Vocabulary::from_texts({"a"}), {}), options),
        sampler({.seed = 1, .batch = EffectiveBatch::parse(batch), .curriculum = curriculum},
                dataset.lengths()) {}

  FeatureCorpus corpus;
  Dataset dataset;
  Sampler sampler;
};

std::vector<std::string> take(Loader& loader, int count) {
  std::vector<std::string> steps;
  for (int i = 0; i < count; ++i) steps.push_back(summary_of(loader.next()));
  return steps;
}

TEST(Loader, GivesTheSamplersStepsInOrder) {
  const SampledCorpus source(many_utterances(10));
  Loader loader(source.dataset, source.sampler, {});
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const EpochOrder order = source.sampler.epoch(epoch);
    for (int64_t s = 0; s < order.num_steps(); ++s) {
      const LoadedStep step = loader.next();
      EXPECT_EQ(step.position, (StepPosition{.epoch = epoch, .step = s}));
      ASSERT_EQ(step.examples.size(), order.utterances(s).size());
      for (size_t i = 0; i < step.examples.size(); ++i) {
        const int64_t utterance = order.utterances(s)[i];
        EXPECT_EQ(step.examples[i].utterance, utterance);
        EXPECT_EQ(step.examples[i].values[0],
                  2.0f * static_cast<float>(source.dataset.manifest().at(utterance).frame_offset));
      }
    }
  }
}

// However little memory it may use, the next step arrives.
TEST(Loader, GivesTheSameStepsWithAnyMemory) {
  const SampledCorpus source(many_utterances(40));
  Loader loader(source.dataset, source.sampler, {});
  const std::vector<std::string> steps = take(loader, 15);
  for (const int64_t bytes : {0, 300, 5'000}) {
    Loader bounded(source.dataset, source.sampler,
                   {.num_threads = 3, .num_steps_ahead = 5, .max_bytes = bytes});
    EXPECT_EQ(take(bounded, 15), steps);
  }
}

TEST(Loader, GivesTheSameStepsOnAnyNumberOfThreads) {
  std::vector<TestUtterance> utterances = many_utterances(40);
  utterances[5].file = "gone.f16";
  utterances[23].file = "gone.f16";
  const SampledCorpus source(utterances, {.broken = Policy::kSkip});
  Loader one(source.dataset, source.sampler, {.num_threads = 1, .num_steps_ahead = 1});
  const std::vector<std::string> expected = take(one, 35);
  for (const int64_t threads : {2, 3, 8}) {
    for (const int64_t ahead : {1, 3, 20}) {
      Loader loader(source.dataset, source.sampler,
                    {.num_threads = threads, .num_steps_ahead = ahead});
      EXPECT_EQ(take(loader, 35), expected);
    }
  }
}

TEST(Loader, CanStartAnywhere) {
  const SampledCorpus source(many_utterances(18));
  Loader from_start(source.dataset, source.sampler, {});
  const std::vector<std::string> all = take(from_start, 15);  // three epochs of five
  for (size_t skip = 0; skip < all.size(); ++skip) {
    Loader loader(source.dataset, source.sampler,
                  {.start = {.epoch = static_cast<int64_t>(skip / 5),
                             .step = static_cast<int64_t>(skip % 5)}});
    EXPECT_EQ(summary_of(loader.next()), all[skip]);
  }
  // A checkpoint may name the end of an epoch.
  Loader at_end(source.dataset, source.sampler, {.start = {.epoch = 0, .step = 5}});
  EXPECT_EQ(summary_of(at_end.next()), all[5]);
}

TEST(Loader, RefusesStartBeyondTheEpoch) {
  const SampledCorpus source(many_utterances(18));
  const std::string message = message_of<DataError>(
      [&] { Loader(source.dataset, source.sampler, {.start = {.epoch = 2, .step = 6}}); });
  EXPECT_PRED2(contains, message,
               "m.jsonl at epoch 2, step 6: 5 steps in the epoch. Expected a step of this epoch. "
               "The data, its limits or the effective batch have changed.");
}

TEST(Loader, ListsWhatItSkips) {
  std::vector<TestUtterance> utterances = many_utterances(4);
  utterances[1].file = "gone.f16";
  const SampledCorpus source(utterances, {.broken = Policy::kSkip}, "4", Curriculum::kListed);
  Loader loader(source.dataset, source.sampler, {});
  const LoadedStep step = loader.next();
  EXPECT_EQ(step.examples.size(), 3u);
  ASSERT_EQ(step.skipped.size(), 1u);
  EXPECT_EQ(step.skipped[0].utterance, 1);
  EXPECT_PRED2(contains, step.skipped[0].reason, "gone.f16: No such file");
}

TEST(Loader, StepMayBecomeEmpty) {
  const SampledCorpus source({{.file = "gone.f16"}}, {.broken = Policy::kSkip});
  Loader loader(source.dataset, source.sampler, {});
  EXPECT_EQ(summary_of(loader.next()), "0.0: -0");
  EXPECT_EQ(summary_of(loader.next()), "1.0: -0");
}

// Thrown at its step and not earlier, although it was found long before; other steps are not
// affected.
TEST(Loader, ThrowsErrorAtItsStepAndContinues) {
  std::vector<TestUtterance> utterances = many_utterances(12);
  utterances[6].file = "gone.f16";
  utterances[7].file = "lost.f16";
  for (const int64_t threads : {1, 4}) {
    const SampledCorpus source(utterances, {}, "2", Curriculum::kListed);
    Loader loader(source.dataset, source.sampler, {.num_threads = threads, .num_steps_ahead = 6});
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int step = 0; step < 6; ++step) {
        if (step == 3) {
          EXPECT_PRED2(contains, message_of<DataError>([&] { loader.next(); }),
                       "gone.f16: No such file or directory");
        } else {
          EXPECT_EQ(loader.next().position, (StepPosition{.epoch = epoch, .step = step}));
        }
      }
    }
  }
}

TEST(Loader, CanBeDestroyedAtAnyTime) {
  const SampledCorpus source(many_utterances(2'000), {}, "500");
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 60; ++i) {
    Loader loader(source.dataset, source.sampler, {.num_threads = 1 + i % 5, .num_steps_ahead = 8});
    if (i % 3 == 1) loader.next();
    if (i % 3 == 2) std::this_thread::sleep_for(std::chrono::milliseconds(i % 4));
  }
  // To decode all that was enqueued would take minutes: 60 times 4,000 files opened.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

// At most the requested number of steps is loaded ahead, so that memory is bounded: a file that is
// created late still exists in time for its step.
TEST(Loader, ReadsNoFurtherAheadThanAllowed) {
  std::vector<TestUtterance> utterances = many_utterances(8);
  for (const size_t last : {6, 7}) utterances[last].file = "late.f16";
  const SampledCorpus source(utterances, {}, "2", Curriculum::kListed);
  Loader loader(source.dataset, source.sampler, {.num_threads = 2, .num_steps_ahead = 2});
  loader.next();  // steps 1 and 2 are enqueued now, step 3 with the utterances 6 and 7 is not
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  source.corpus.folder().write("late.f16",
                               test::content_of(source.corpus.folder().path() / "x.f16"));
  for (int step = 1; step < 4; ++step) EXPECT_EQ(loader.next().examples.size(), 2u);
}

}  // namespace
}  // namespace sotto::data
