#include "sotto/decode/token_search.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "sotto/core/rng.h"

namespace sotto::decode {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int32_t kEnd = 0;
constexpr int64_t kVocabulary = 4;

// Log-probabilities of what may follow a history, drawn from the history itself: a hypothesis that
// went on from the wrong one would get other scores.
std::vector<float> scores_after(int64_t utterance, const Tokens& history) {
  uint64_t index = 17;
  for (const int32_t token : history) index = 31 * index + static_cast<uint64_t>(token) + 1;
  const RandomStream stream({.seed = 3}, {.utterance = static_cast<uint64_t>(utterance)});
  std::vector<double> raw;
  double sum = 0.0;
  for (int64_t token = 0; token < kVocabulary; ++token) {
    raw.push_back(std::exp(2.0 * double{stream.normal(kVocabulary * index + token)}));
    sum += raw.back();
  }
  std::vector<float> scores;
  for (const double value : raw) scores.push_back(static_cast<float>(std::log(value / sum)));
  return scores;
}

class DrawnScorer : public models::Scorer {
 public:
  DrawnScorer(int64_t num_utterances, int64_t max_tokens)
      : Scorer({.num_utterances = num_utterances, .end_token = kEnd, .max_tokens = max_tokens}) {}

  at::Tensor begin() override {
    for (int64_t utterance = 0; utterance < size(); ++utterance) rows_.push_back({utterance, {}});
    return scores();
  }
  at::Tensor step(std::span<const int32_t> tokens) override {
    EXPECT_EQ(tokens.size(), rows_.size());
    for (size_t i = 0; i < tokens.size(); ++i) rows_[i].history.push_back(tokens[i]);
    ++num_steps;
    return scores();
  }
  void reorder(std::span<const int64_t> sources) override {
    std::vector<Row> next;
    for (const int64_t source : sources) next.push_back(rows_.at(static_cast<size_t>(source)));
    rows_ = std::move(next);
  }

  int64_t num_steps = 0;

 private:
  struct Row {
    int64_t utterance = 0;
    Tokens history;
  };

  at::Tensor scores() const {
    std::vector<float> all;
    for (const Row& row : rows_) {
      const std::vector<float> of_row = scores_after(row.utterance, row.history);
      all.insert(all.end(), of_row.begin(), of_row.end());
    }
    return at::tensor(all).view({-1, kVocabulary});
  }

  std::vector<Row> rows_;
};

// The best of all sequences that end within `max_tokens`.
TokenHypothesis best_of_all(int64_t utterance, int64_t max_tokens) {
  TokenHypothesis best{.tokens = {}, .score = -std::numeric_limits<double>::infinity()};
  const std::function<void(const TokenHypothesis&)> extend = [&](const TokenHypothesis& from) {
    const std::vector<float> scores = scores_after(utterance, from.tokens);
    const double ended = from.score + double{scores[kEnd]};
    if (ended > best.score) best = {.tokens = from.tokens, .score = ended};
    if (std::ssize(from.tokens) + 1 == max_tokens) return;
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

TEST(TokenSearch, FindsTheBestWithAWideBeam) {
  constexpr int64_t kUtterances = 20, kMaxTokens = 5;
  DrawnScorer scorer(kUtterances, kMaxTokens);
  // As wide as there are sequences: nothing is cut.
  const std::vector<TokenHypothesis> found = find_tokens(scorer, {.width = 400});
  ASSERT_EQ(std::ssize(found), kUtterances);
  int64_t num_long = 0;
  for (int64_t utterance = 0; utterance < kUtterances; ++utterance) {
    const TokenHypothesis expected = best_of_all(utterance, kMaxTokens);
    EXPECT_EQ(found[static_cast<size_t>(utterance)].tokens, expected.tokens) << utterance;
    EXPECT_NEAR(found[static_cast<size_t>(utterance)].score, expected.score, 1e-5) << utterance;
    num_long += expected.tokens.size() >= 2 ? 1 : 0;
  }
  EXPECT_GT(num_long, 2);
}

TEST(TokenSearch, IsGreedyWithWidthOne) {
  constexpr int64_t kUtterances = 20, kMaxTokens = 6;
  DrawnScorer scorer(kUtterances, kMaxTokens);
  const std::vector<TokenHypothesis> found = find_tokens(scorer);
  int64_t num_cut = 0;
  for (int64_t utterance = 0; utterance < kUtterances; ++utterance) {
    Tokens expected;
    while (std::ssize(expected) < kMaxTokens) {
      const std::vector<float> scores = scores_after(utterance, expected);
      const auto token = static_cast<int32_t>(std::ranges::max_element(scores) - scores.begin());
      if (token == kEnd) break;
      expected.push_back(token);
    }
    num_cut += std::ssize(expected) == kMaxTokens ? 1 : 0;
    EXPECT_EQ(found[static_cast<size_t>(utterance)].tokens, expected) << utterance;
  }
  EXPECT_GT(num_cut, 0) << "no utterance reached the longest";
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

// On Meta: as many hypotheses and steps as there can be.
class DryScorer : public models::Scorer {
 public:
  explicit DryScorer(int64_t max_tokens)
      : Scorer({.num_utterances = 3, .end_token = kEnd, .max_tokens = max_tokens}) {}
  at::Tensor begin() override { return scores(3); }
  at::Tensor step(std::span<const int32_t> tokens) override {
    ++num_steps;
    most_rows = std::max(most_rows, std::ssize(tokens));
    return scores(std::ssize(tokens));
  }
  void reorder(std::span<const int64_t>) override {}

  int64_t num_steps = 0;
  std::ptrdiff_t most_rows = 0;

 private:
  static at::Tensor scores(int64_t rows) {
    return at::empty({rows, kVocabulary}, at::TensorOptions().device(at::kMeta));
  }
};

TEST(TokenSearch, RunsEveryStepInADryRun) {
  DryScorer scorer(7);
  EXPECT_EQ(find_tokens(scorer, {.width = 5}).size(), 3u);
  EXPECT_EQ(scorer.num_steps, 6);
  EXPECT_EQ(scorer.most_rows, 15);
}

}  // namespace
}  // namespace sotto::decode
