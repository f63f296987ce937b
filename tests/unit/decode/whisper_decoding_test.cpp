// Whisper's decoding of windows with a scripted network and a small vocabulary of Whisper's form.
#include "sotto/decode/whisper_decoding.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "sotto/core/error.h"
#include "sotto/decode/transcript.h"
#include "support/byte_vocabulary.h"
#include "support/thrown.h"

namespace sotto::decode::whisper_decoding_test {
namespace {

using Tokens = std::vector<int32_t>;

data::Tokenizer tiny_tokenizer() {
  const test::TempFolder folder;
  return {data::ByteBpe::read(test::write_tiny_whisper(folder)), {}};
}

// Says what a script has for the tokens so far, with a probability of 0.9.
class ScriptedScorer : public models::Scorer {
 public:
  using Script = std::function<int32_t(int64_t utterance, const Tokens& history)>;

  ScriptedScorer(const data::WhisperTokens& tokens, int64_t size, Script script)
      : Scorer(std::vector<int64_t>(static_cast<size_t>(size), 1500), tokens.end()),
        vocabulary_(tokens.size()),
        script_(std::move(script)) {}

  at::Tensor begin(const Limits& limits) override {
    rows_.assign(limits.prompts.begin(), limits.prompts.end());
    for (const Tokens& row : rows_) EXPECT_EQ(row.size(), rows_.front().size());
    return scores();
  }
  at::Tensor step(std::span<const int32_t> tokens) override {
    for (size_t i = 0; i < tokens.size(); ++i) rows_[i].push_back(tokens[i]);
    EXPECT_LE(rows_.front().size(), 448u);
    longest = std::max(longest, std::ssize(rows_.front()));
    return scores();
  }
  void reorder(std::span<const int64_t> sources) override {
    std::vector<Tokens> next;
    for (const int64_t source : sources) next.push_back(rows_.at(static_cast<size_t>(source)));
    rows_ = std::move(next);
  }
  // Two heads, which look at 40 frames further for each token.
  at::Tensor frame_weights() const override {
    at::Tensor weights = at::full({2, std::ssize(rows_), 1500}, 1e-4f);
    for (int64_t row = 0; row < std::ssize(rows_); ++row) {
      const int64_t first = 40 * (std::ssize(rows_[static_cast<size_t>(row)]) - num_given);
      if (first >= 0 && first + 40 <= 1500)
        weights.select(1, row).narrow(1, first, 40).fill_(0.02f);
    }
    return weights;
  }

  const std::vector<Tokens>& rows() const { return rows_; }

  std::ptrdiff_t longest = 0;
  // Length of the prompt, for the frames.
  int64_t num_given = 0;

 private:
  at::Tensor scores() const {
    at::Tensor all = at::full({std::ssize(rows_), vocabulary_},
                              std::log(0.1f / static_cast<float>(vocabulary_ - 1)));
    for (size_t row = 0; row < rows_.size(); ++row)
      all[static_cast<int64_t>(row)][script_(static_cast<int64_t>(row), rows_[row])] =
          std::log(0.9f);
    return all;
  }

  int64_t vocabulary_;
  Script script_;
  std::vector<Tokens> rows_;
};

// Says these tokens after the prompt, then the end.
ScriptedScorer::Script after(int64_t num_given, Tokens said, int32_t end) {
  return [=](int64_t, const Tokens& history) {
    const int64_t at = std::ssize(history) - num_given;
    return at >= 0 && at < std::ssize(said) ? said[static_cast<size_t>(at)] : end;
  };
}

class WhisperWindows : public ::testing::Test {
 protected:
  data::Tokenizer tokenizer_ = tiny_tokenizer();
  data::WhisperTokens tokens_{*tokenizer_.byte_bpe()};
};

TEST_F(WhisperWindows, HaveTheLikeliestLanguageUnlessOneIsSet) {
  ScriptedScorer scorer(tokens_, 2, [&](int64_t utterance, const Tokens& history) {
    EXPECT_EQ(history, Tokens{tokens_.start()});
    // What is not a language does not count.
    return utterance == 0 ? tokens_.language("malay") : 5;
  });
  const WhisperDecoding detecting({}, tokenizer_, {});
  EXPECT_EQ(detecting.find_languages(scorer).front(), "ms");
  const WhisperDecoding set({.whisper = {.language = "Polish"}}, tokenizer_, {});
  EXPECT_EQ(set.find_languages(scorer), (std::vector<std::string>{"pl", "pl"}));
  EXPECT_PRED2(test::contains, test::message_of<ConfigError>([&] {
                 WhisperDecoding({.whisper = {.language = "klingon"}}, tokenizer_, {});
               }),
               "klingon");
}

TEST_F(WhisperWindows, BeginWithPreviousTextLanguageAndTask) {
  const Tokens previous = {97, 98};
  const Tokens prompt = {tokens_.previous(),
                         97,
                         98,
                         tokens_.start(),
                         tokens_.language("pl"),
                         tokens_.task(data::WhisperTask::kTranslate),
                         tokens_.no_timestamps()};
  ScriptedScorer scorer(tokens_, 1, after(7, {99}, tokens_.end()));
  const DecodeOptions options{
      .whisper = {.task = data::WhisperTask::kTranslate, .timestamps = false}};
  const WhisperDecoding decoding(options, tokenizer_, {});
  const std::vector<WhisperWindow> windows = {{.language = "pl", .previous = previous}};
  EXPECT_EQ(decoding.decode(scorer, windows).front().tokens, Tokens{99});
  ASSERT_EQ(scorer.rows().size(), 1u);
  const Tokens& said = scorer.rows().front();
  EXPECT_EQ(Tokens(said.begin(), said.begin() + 7), prompt);
  EXPECT_EQ(said.size(), 8u);
}

TEST_F(WhisperWindows, NeverLeaveThePositionsOfTheDecoder) {
  ScriptedScorer scorer(tokens_, 1, [](int64_t, const Tokens& history) {
    return static_cast<int32_t>(97 + history.size() * history.size() % 23);
  });
  const DecodeOptions options{.whisper = {.timestamps = false, .temperatures = {0.0}}};
  const WhisperDecoding decoding(options, tokenizer_, {});
  const std::vector<WhisperWindow> windows = {{.language = "en"}};
  EXPECT_EQ(decoding.decode(scorer, windows).front().tokens.size(), 444u);
  EXPECT_EQ(scorer.longest, 447);
}

// " ab c" and "d", of which a word is in two tokens.
TEST_F(WhisperWindows, BecomeATranscriptWithSegmentsAndWords) {
  const int32_t space_ab = *tokenizer_.byte_bpe()->find("Ġab");
  const Tokens said = {tokens_.timestamp(0.0),
                       space_ab,
                       99,
                       32,
                       100,
                       tokens_.timestamp(4.0),
                       tokens_.timestamp(5.0),
                       32,
                       97,
                       tokens_.timestamp(7.0)};
  ScriptedScorer scorer(tokens_, 1, after(3, said, tokens_.end()));
  scorer.num_given = 3;
  const DecodeOptions options{.beam = 2};
  const WhisperDecoding decoding(options, tokenizer_, {.has_times = true});
  int64_t num_windows = 0;
  const std::vector<SegmentTokens> segments =
      find_segments(decoding.recording(4000), [&](const RecordingWindow& window) -> WindowTokens {
        if (num_windows++ > 0) return {.is_silent = true};
        return decoding
            .decode(scorer,
                    std::vector<WhisperWindow>{{.language = "en", .previous = window.previous}})
            .front();
      });
  EXPECT_EQ(num_windows, 2) << "a single timestamp ends the first window";
  const Transcript transcript = make_transcript(segments, 40.0, tokenizer_, decoding.text_end());
  EXPECT_EQ(transcript.text, "abc d a");
  ASSERT_EQ(transcript.segments.size(), 2u);
  EXPECT_EQ(transcript.segments[0].text, "abc d");
  EXPECT_NEAR(transcript.segments[0].end_s, 4.0, 1e-9);
  EXPECT_NEAR(transcript.segments[1].start_s, 5.0, 1e-9);
  ASSERT_EQ(transcript.words.size(), 3u);
  EXPECT_EQ(transcript.words[0].text, "abc");
  EXPECT_EQ(transcript.segments[0].end_word, 2u);
  // Each token has 40 frames, 0.8 s: "abc" is the second and the third, " d" the fifth after a
  // space.
  EXPECT_NEAR(transcript.words[0].start_s, 0.8, 0.1);
  EXPECT_NEAR(transcript.words[0].end_s, 2.4, 0.1);
  EXPECT_NEAR(transcript.words[1].start_s, 3.2, 0.9);
  for (size_t i = 1; i < 3; ++i)
    EXPECT_GE(transcript.words[i].start_s, transcript.words[i - 1].end_s);
}

TEST_F(WhisperWindows, WithoutSpeechAreSilent) {
  ScriptedScorer scorer(tokens_, 1, [&](int64_t, const Tokens& history) {
    return history.back() == tokens_.start() ? tokens_.no_speech() : tokens_.end();
  });
  DecodeOptions options{.whisper = {.timestamps = false, .temperatures = {0.0}}};
  const std::vector<WhisperWindow> windows = {{.language = "en"}};
  EXPECT_FALSE(WhisperDecoding(options, tokenizer_, {}).decode(scorer, windows).front().is_silent)
      << "the text is probable";
  options.whisper.logprob_threshold = -0.01;
  EXPECT_TRUE(WhisperDecoding(options, tokenizer_, {}).decode(scorer, windows).front().is_silent);
}

}  // namespace
}  // namespace sotto::decode::whisper_decoding_test
