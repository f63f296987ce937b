#include "sotto/decode/token_search.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "support/temp_folder.h"
#include "unit/decode/ctc_labellings.h"
#include "unit/decode/drawn_scorer.h"

namespace sotto::decode::token_search_test {
namespace token_search_test {

using test::DrawnScorer;
using test::kEnd;
using test::kVocabulary;
using test::scores_after;
using test::Tokens;

// What is added to the attention's score of a whole sequence.
using MoreScore = std::function<double(int64_t utterance, const Tokens& tokens)>;

// The best of all sequences of `fewest` to `most` tokens by its weighted score.
TokenHypothesis best_of_all(int64_t utterance, int64_t fewest, int64_t most,
                            double attention_weight = 1.0, const MoreScore& more = {}) {
  TokenHypothesis best{.tokens = {}, .score = -std::numeric_limits<double>::infinity()};
  const std::function<void(const TokenHypothesis&)> extend = [&](const TokenHypothesis& from) {
    const std::vector<float> scores = scores_after(utterance, from.tokens);
    double ended = attention_weight * (from.score + double{scores[kEnd]});
    if (more) ended += more(utterance, from.tokens);
    if (ended > best.score && std::ssize(from.tokens) >= fewest)
      best = {.tokens = from.tokens, .score = ended};
    if (std::ssize(from.tokens) == most) return;
    for (int32_t token = 1; token < kVocabulary; ++token) {
      TokenHypothesis next = from;
      next.tokens.push_back(token);
      next.score += double{scores[static_cast<size_t>(token)]};
      extend(next);
    }
  };
  extend({});
  return best;
}

void expect_same(const TokenHypothesis& found, const TokenHypothesis& expected, int64_t utterance) {
  EXPECT_EQ(found.tokens, expected.tokens) << utterance;
  EXPECT_NEAR(found.score, expected.score, 1e-4) << utterance;
}

// As wide as there are sequences: nothing is cut.
constexpr int64_t kWide = 400;

TEST(TokenSearch, FindsTheBestWithAWideBeam) {
  constexpr int64_t kUtterances = 20, kMostTokens = 4;
  DrawnScorer scorer(kUtterances, kMostTokens);
  const std::vector<TokenHypothesis> found = find_tokens(scorer, {.width = kWide});
  ASSERT_EQ(std::ssize(found), kUtterances);
  int64_t num_long = 0;
  for (int64_t utterance = 0; utterance < kUtterances; ++utterance) {
    const TokenHypothesis expected = best_of_all(utterance, 0, kMostTokens);
    expect_same(found[static_cast<size_t>(utterance)], expected, utterance);
    num_long += expected.tokens.size() >= 2 ? 1 : 0;
  }
  EXPECT_GT(num_long, 2);
}

// Each utterance has its own bounds, by its number of frames.
TEST(TokenSearch, KeepsTheBoundsOfTokens) {
  const std::vector<int64_t> num_frames = {4, 8, 10, 6, 2, 1, 10, 8};
  DrawnScorer scorer(num_frames);
  const std::vector<TokenHypothesis> found = find_tokens(
      scorer, {.width = kWide, .max_tokens_per_frame = 0.5, .min_tokens_per_frame = 0.3});
  for (int64_t utterance = 0; utterance < scorer.size(); ++utterance) {
    const int64_t frames = num_frames[static_cast<size_t>(utterance)];
    const int64_t most = (frames + 1) / 2;
    const auto fewest =
        std::min(most, static_cast<int64_t>(std::ceil(0.3 * static_cast<double>(frames))));
    expect_same(found[static_cast<size_t>(utterance)], best_of_all(utterance, fewest, most),
                utterance);
  }
}

constexpr int64_t kFrames = 5;

// Scores of frames of all utterances, with token n of the decoder as entry n of CTC.
models::FrameScores draw_frames(int64_t num_utterances) {
  const std::vector<float> logits =
      test::draw_logits(num_utterances * kFrames, kVocabulary, /*seed=*/5);
  return {.logits = at::tensor(logits).view({-1, kVocabulary}),
          .packing = kernels::Packing(
              std::vector<int64_t>(static_cast<size_t>(num_utterances), kFrames), at::kCPU),
          .blank = 0};
}

// One pass over both: the attention's score, and the probability by all paths of CTC.
TEST(TokenSearch, WithCtcFindsTheBestOfBoth) {
  constexpr int64_t kUtterances = 12;
  const models::FrameScores frames = draw_frames(kUtterances);
  const auto log_ctc = [&](int64_t utterance, const Tokens& tokens) {
    const at::Tensor own = frames.logits.narrow(0, utterance * kFrames, kFrames).contiguous();
    const std::vector<float> logits(own.const_data_ptr<float>(),
                                    own.const_data_ptr<float>() + own.numel());
    const auto all = test::all_labellings(logits, kVocabulary);
    const auto known = all.find(tokens);
    return known == all.end() ? -std::numeric_limits<double>::infinity() : std::log(known->second);
  };
  int64_t num_changed = 0;
  for (const double weight : {0.3, 0.8}) {
    DrawnScorer scorer(kUtterances, kFrames);
    const std::vector<TokenHypothesis> found =
        find_tokens(scorer, {.width = kWide, .ctc_weight = weight}, &frames);
    for (int64_t utterance = 0; utterance < kUtterances; ++utterance) {
      const TokenHypothesis expected =
          best_of_all(utterance, 0, kFrames, 1.0 - weight,
                      [&](int64_t u, const Tokens& tokens) { return weight * log_ctc(u, tokens); });
      expect_same(found[static_cast<size_t>(utterance)], expected, utterance);
      num_changed += expected.tokens != best_of_all(utterance, 0, kFrames).tokens ? 1 : 0;
    }
  }
  EXPECT_GT(num_changed, 4) << "CTC changes nothing";
}

// The space, a and b are the entries 1 to 3 of the tokenizer, as of the decoder.
TEST(TokenSearch, WithALanguageModelFindsTheBestOfBoth) {
  test::TempFolder folder;
  folder.write("lm.arpa", R"(\data\
ngram 1=5
ngram 2=2

\1-grams:
-1.0 <unk>
-99 <s> -0.3
-0.7 </s>
-0.9 a -0.2
-0.4 b -0.1

\2-grams:
-0.2 <s> b
-0.1 a b

\end\
)");
  const auto model =
      std::make_shared<const NgramModel>(NgramModel::read(folder.path() / "lm.arpa"));
  const data::Tokenizer tokenizer{data::Vocabulary::from_texts({"ab"}), {}};
  for (const double bonus : {0.0, 1.5}) {
    const WordScores words(tokenizer, {.lm_weight = 0.7, .word_bonus = bonus}, model);
    constexpr int64_t kUtterances = 10, kMostTokens = 4;
    DrawnScorer scorer(kUtterances, kMostTokens);
    const std::vector<TokenHypothesis> found =
        find_tokens(scorer, {.width = kWide, .words = &words});
    for (int64_t utterance = 0; utterance < kUtterances; ++utterance) {
      const TokenHypothesis expected =
          best_of_all(utterance, 0, kMostTokens, 1.0, [&](int64_t, const Tokens& tokens) {
            WordScores::State state = words.begin();
            for (const int32_t token : tokens) words.add(state, token);
            words.finish(state);
            return state.given;
          });
      expect_same(found[static_cast<size_t>(utterance)], expected, utterance);
    }
  }
}

// Whatever came before, an "a", a space and the end are as likely.
class SteadyScorer : public models::Scorer {
 public:
  explicit SteadyScorer(int64_t num_frames) : Scorer({num_frames}, kEnd) {}
  at::Tensor begin(const Limits&) override { return scores(1); }
  at::Tensor step(std::span<const int32_t> tokens) override { return scores(std::ssize(tokens)); }
  void reorder(std::span<const int64_t>) override {}
  at::Tensor frame_weights() const override { return {}; }

 private:
  static at::Tensor scores(int64_t rows) {
    return at::tensor({0.03f, 0.48f, 0.48f, 0.01f}).log().expand({rows, 4});
  }
};

// Every word raises the score: the first ends are not the best ones.
TEST(TokenSearch, GoesOnWhileABonusMakesLongerTextsBetter) {
  test::TempFolder folder;
  folder.write("lm.arpa",
               "\\data\\\nngram 1=4\n\n\\1-grams:\n-1.0 <unk>\n-99 <s>\n-0.5 </s>\n"
               "-0.5 a\n\n\\end\\\n");
  const auto model =
      std::make_shared<const NgramModel>(NgramModel::read(folder.path() / "lm.arpa"));
  const data::Tokenizer tokenizer{data::Vocabulary::from_texts({"ab"}), {}};
  const WordScores words(tokenizer, {.lm_weight = 0.5, .word_bonus = 6.0}, model);
  SteadyScorer scorer(21);
  const TokenHypothesis found = find_tokens(scorer, {.width = 3, .words = &words}).front();
  // "a a a ...": a word takes two tokens.
  EXPECT_EQ(std::ranges::count(found.tokens, 2), 11);
  EXPECT_EQ(found.tokens.size(), 21u);
}

TEST(TokenSearch, IsGreedyWithWidthOne) {
  constexpr int64_t kUtterances = 20, kMostTokens = 6;
  DrawnScorer scorer(kUtterances, kMostTokens);
  const std::vector<TokenHypothesis> found = find_tokens(scorer);
  int64_t num_longest = 0;
  for (int64_t utterance = 0; utterance < kUtterances; ++utterance) {
    Tokens expected;
    while (std::ssize(expected) < kMostTokens) {
      const std::vector<float> scores = scores_after(utterance, expected);
      const auto token = static_cast<int32_t>(std::ranges::max_element(scores) - scores.begin());
      if (token == kEnd) break;
      expected.push_back(token);
    }
    num_longest += std::ssize(expected) == kMostTokens ? 1 : 0;
    EXPECT_EQ(found[static_cast<size_t>(utterance)].tokens, expected) << utterance;
  }
  EXPECT_GT(num_longest, 0) << "no utterance reached the longest";
}

TEST(TokenSearch, FindsBetterHypothesesWithAWiderBeam) {
  double narrow = 0.0, wide = 0.0;
  for (const int64_t width : {1, 8}) {
    DrawnScorer scorer(40, 4);
    for (const TokenHypothesis& hypothesis : find_tokens(scorer, {.width = width}))
      (width == 1 ? narrow : wide) += hypothesis.score;
  }
  EXPECT_GT(wide, narrow);
}

// On Meta: as much memory as there can be.
class DryScorer : public models::Scorer {
 public:
  DryScorer() : Scorer({7, 5, 3}, kEnd) {}
  at::Tensor begin(const Limits& limits) override {
    EXPECT_EQ(limits.width, 5);
    EXPECT_EQ(limits.max_tokens, 8);
    return scores(3);
  }
  at::Tensor step(std::span<const int32_t> tokens) override {
    most_rows = std::max(most_rows, std::ssize(tokens));
    return scores(std::ssize(tokens));
  }
  void reorder(std::span<const int64_t>) override {}
  at::Tensor frame_weights() const override { return {}; }

  std::ptrdiff_t most_rows = 0;

 private:
  static at::Tensor scores(int64_t rows) {
    return at::empty({rows, kVocabulary}, at::TensorOptions().device(at::kMeta));
  }
};

TEST(TokenSearch, RunsTheWidestStepInADryRun) {
  DryScorer scorer;
  const std::vector<TokenHypothesis> found = find_tokens(scorer, {.width = 5});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1].tokens.size(), 5u);
  EXPECT_EQ(scorer.most_rows, 15);
}

}  // namespace token_search_test
}  // namespace sotto::decode::token_search_test
