// Searches over tokens with rules, prompts, a length penalty and drawn tokens, against all
// sequences of a small vocabulary.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "sotto/decode/token_search.h"
#include "unit/decode/drawn_scorer.h"

namespace sotto::decode {
namespace {

using test::DrawnScorer;
using test::kEnd;
using test::kVocabulary;
using test::scores_after;
using test::Tokens;

constexpr float kNever = -std::numeric_limits<float>::infinity();
// As wide as there are sequences: nothing is cut.
constexpr int64_t kAllSequences = 400;

// No token twice in a row, and no end before a 2.
class NoRepetitions : public TokenRules {
 public:
  void apply(std::span<const int32_t> tokens, std::span<float> scores) const override {
    if (!tokens.empty()) scores[static_cast<size_t>(tokens.back())] = kNever;
    if (std::ranges::find(tokens, 2) == tokens.end()) scores[kEnd] = kNever;
  }
};

// How the test searches.
struct Exhaustive {
  int64_t utterance = 0;
  int64_t most = 4;
  const TokenRules* rules = nullptr;
  Tokens prompt = {};
  double length_penalty = 0.0;
  // Whether a sequence of the most tokens is complete.
  bool fills_positions = false;
};

// Returns the best of all sequences that the rules allow.
TokenHypothesis best_of(const Exhaustive& how) {
  TokenHypothesis best{.tokens = {}, .score = -std::numeric_limits<double>::infinity()};
  const auto consider = [&](const Tokens& tokens, double sum, double length) {
    const double score = sum / std::pow(length, how.length_penalty);
    if (score > best.score)
      best = {.tokens = tokens, .score = score, .mean_log_probability = sum / length};
  };
  const std::function<void(const Tokens&, double)> extend = [&](const Tokens& tokens, double sum) {
    Tokens history = how.prompt;
    history.insert(history.end(), tokens.begin(), tokens.end());
    std::vector<float> scores = scores_after(how.utterance, history);
    if (how.rules != nullptr) how.rules->apply(tokens, scores);
    const auto length = static_cast<double>(tokens.size());
    const bool is_most = std::ssize(tokens) == how.most;
    if (is_most && how.fills_positions) return consider(tokens, sum, length);
    consider(tokens, sum + double{scores[kEnd]}, length + 1.0);
    if (is_most) return;
    for (int32_t token = 1; token < kVocabulary; ++token) {
      Tokens next = tokens;
      next.push_back(token);
      extend(next, sum + double{scores[static_cast<size_t>(token)]});
    }
  };
  extend({}, 0.0);
  return best;
}

TEST(TokenRules, AreKeptByEveryHypothesis) {
  constexpr int64_t kSearched = 20, kMostTokens = 4;
  const NoRepetitions rules;
  DrawnScorer scorer(kSearched, kMostTokens);
  const std::vector<TokenHypothesis> found =
      find_tokens(scorer, {.width = kAllSequences, .rules = &rules});
  int64_t num_changed = 0;
  for (int64_t u = 0; u < kSearched; ++u) {
    const TokenHypothesis expected =
        best_of({.utterance = u, .most = kMostTokens, .rules = &rules});
    EXPECT_EQ(found[static_cast<size_t>(u)].tokens, expected.tokens) << u;
    EXPECT_NEAR(found[static_cast<size_t>(u)].score, expected.score, 1e-4) << u;
    num_changed += expected.tokens != best_of({.utterance = u}).tokens ? 1 : 0;
  }
  EXPECT_GT(num_changed, 10) << "the rules change nothing";
}

// The mean is that of probabilities among the tokens that the rules leave, with the end.
TEST(TokenRules, LeaveProbabilitiesThatSumToOne) {
  const NoRepetitions rules;
  DrawnScorer scorer(8, 60);
  for (const TokenRules* applied :
       {static_cast<const TokenRules*>(nullptr), static_cast<const TokenRules*>(&rules)}) {
    const std::vector<TokenHypothesis> found = find_tokens(scorer, {.rules = applied});
    for (int64_t u = 0; u < 8; ++u) {
      const TokenHypothesis& best = found[static_cast<size_t>(u)];
      Tokens said = best.tokens;
      said.push_back(kEnd);
      double sum = 0.0;
      for (size_t n = 0; n < said.size(); ++n) {
        const Tokens before(said.begin(), said.begin() + static_cast<std::ptrdiff_t>(n));
        std::vector<float> scores = scores_after(u, before);
        if (applied != nullptr) applied->apply(before, scores);
        double all = 0.0;
        for (const float score : scores) all += std::exp(double{score});
        sum += double{scores[static_cast<size_t>(said[n])]} - std::log(all);
      }
      EXPECT_NEAR(best.mean_log_probability, sum / static_cast<double>(said.size()), 1e-5) << u;
    }
  }
}

TEST(TokenPrompts, ComeBeforeTheTokensOfTheirUtterance) {
  TokenPrompts prompts;
  for (int32_t u = 0; u < 12; ++u) prompts.tokens.push_back({1 + u % 3, 2, 1 + u % 2});
  DrawnScorer scorer(12, 4);
  const std::vector<TokenHypothesis> found =
      find_tokens(scorer, {.width = kAllSequences, .prompts = &prompts});
  int64_t num_changed = 0;
  for (int64_t u = 0; u < 12; ++u) {
    const auto i = static_cast<size_t>(u);
    const TokenHypothesis expected = best_of({.utterance = u, .prompt = prompts.tokens[i]});
    EXPECT_EQ(found[i].tokens, expected.tokens) << u;
    EXPECT_NEAR(found[i].score, expected.score, 1e-4) << u;
    num_changed += expected.tokens != best_of({.utterance = u}).tokens ? 1 : 0;
  }
  EXPECT_GT(num_changed, 4) << "prompts change nothing";
}

// Whisper reads the probability of silence after the start, in the middle of a prompt.
TEST(TokenPrompts, AreMeasuredWhereTheySay) {
  TokenPrompts prompts{.tokens = {{3, 1, 2}, {1, 1, 3}}, .measured = 2, .num_before = 2};
  DrawnScorer scorer(2, 4);
  const std::vector<TokenHypothesis> found = find_tokens(scorer, {.prompts = &prompts});
  prompts.measured.reset();
  const std::vector<TokenHypothesis> unmeasured = find_tokens(scorer, {.prompts = &prompts});
  for (const size_t u : {0u, 1u}) {
    const Tokens before(prompts.tokens[u].begin(), prompts.tokens[u].begin() + 2);
    const double expected = std::exp(double{scores_after(static_cast<int64_t>(u), before)[2]});
    EXPECT_NEAR(found[u].measured_probability, expected, 1e-6);
    EXPECT_EQ(found[u].tokens, unmeasured[u].tokens);
    EXPECT_EQ(unmeasured[u].measured_probability, 0.0);
  }
}

TEST(TokenPrompts, AreFollowedByTheLikeliestOfSomeTokens) {
  const TokenPrompts prompts{.tokens = std::vector<Tokens>(20, Tokens{2})};
  DrawnScorer scorer(20, 4);
  const Tokens among = {3, 1};
  const std::vector<int32_t> found = find_first_token(scorer, prompts, among);
  int64_t num_first = 0;
  for (int64_t u = 0; u < 20; ++u) {
    const std::vector<float> scores = scores_after(u, {2});
    EXPECT_EQ(found[static_cast<size_t>(u)], scores[3] > scores[1] ? 3 : 1) << u;
    num_first += scores[3] > scores[1] ? 1 : 0;
  }
  EXPECT_GT(num_first, 2);
  EXPECT_LT(num_first, 18);
}

TEST(LengthPenalty, DividesTheScoreByAPowerOfTheLength) {
  int64_t num_changed = 0;
  for (const double penalty : {-1.0, 0.0, 1.0, 2.0}) {
    DrawnScorer scorer(20, 4);
    const std::vector<TokenHypothesis> found =
        find_tokens(scorer, {.width = kAllSequences, .length_penalty = penalty});
    for (int64_t u = 0; u < 20; ++u) {
      const TokenHypothesis expected = best_of({.utterance = u, .length_penalty = penalty});
      EXPECT_EQ(found[static_cast<size_t>(u)].tokens, expected.tokens) << u << ", " << penalty;
      EXPECT_NEAR(found[static_cast<size_t>(u)].score, expected.score, 1e-4)
          << u << ", " << penalty;
      num_changed += expected.tokens != best_of({.utterance = u}).tokens ? 1 : 0;
    }
  }
  EXPECT_GT(num_changed, 10) << "the penalty changes nothing";
}

TEST(LengthPenalty, OfAnyExponentLeavesGreedyDecodingAsItIs) {
  DrawnScorer scorer(20, 6);
  const std::vector<TokenHypothesis> plain = find_tokens(scorer, {});
  for (const double penalty : {-2.0, 1.0, 3.0}) {
    const std::vector<TokenHypothesis> found = find_tokens(scorer, {.length_penalty = penalty});
    for (size_t u = 0; u < plain.size(); ++u) EXPECT_EQ(found[u].tokens, plain[u].tokens) << u;
  }
}

// The prompt takes positions, and a hypothesis that fills them needs no end token.
TEST(Positions, BoundAPromptAndItsHypothesisTogether) {
  TokenPrompts prompts{.tokens = std::vector<Tokens>(20, Tokens{1, 3})};
  DrawnScorer scorer(20, 9);
  int64_t num_full = 0;
  for (const double penalty : {0.0, 1.0}) {
    const std::vector<TokenHypothesis> found = find_tokens(scorer, {.width = kAllSequences,
                                                                    .max_positions = 5,
                                                                    .length_penalty = penalty,
                                                                    .prompts = &prompts});
    for (int64_t u = 0; u < 20; ++u) {
      const TokenHypothesis expected = best_of({.utterance = u,
                                                .most = 3,
                                                .prompt = {1, 3},
                                                .length_penalty = penalty,
                                                .fills_positions = true});
      const TokenHypothesis& best = found[static_cast<size_t>(u)];
      EXPECT_EQ(best.tokens, expected.tokens) << u;
      EXPECT_NEAR(best.score, expected.score, 1e-4) << u;
      EXPECT_NEAR(best.mean_log_probability, expected.mean_log_probability, 1e-4) << u;
      num_full += best.tokens.size() == 3 ? 1 : 0;
    }
  }
  EXPECT_GT(num_full, 4);
  EXPECT_LT(num_full, 38);
}

std::vector<TokenHypothesis> drawn(const std::vector<uint64_t>& utterances, double temperature,
                                   uint64_t attempt = 0) {
  TokenSampling sampling{.temperature = temperature,
                         .key = {.seed = 5, .purpose = Purpose::kSampling, .step = attempt}};
  for (const uint64_t utterance : utterances)
    sampling.utterances.push_back({.utterance = utterance});
  // All utterances have the same scores: they differ by what is drawn.
  class OneScorer : public DrawnScorer {
   public:
    explicit OneScorer(int64_t size) : DrawnScorer(size, 1) {}
    at::Tensor begin(const Limits& limits) override {
      DrawnScorer::begin(limits);
      return at::tensor(scores_after(0, {})).expand({size(), kVocabulary});
    }
  };
  OneScorer scorer(std::ssize(utterances));
  const NoRepetitions rules;
  return find_tokens(scorer, {.max_positions = 1, .rules = &rules, .sampling = &sampling});
}

TEST(TokenSampling, DrawsTokensByTheirProbabilityAtATemperature) {
  std::vector<uint64_t> utterances(4000);
  std::iota(utterances.begin(), utterances.end(), uint64_t{0});
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::map<int32_t, double> share;
    for (const TokenHypothesis& one : drawn(utterances, temperature)) {
      ASSERT_EQ(one.tokens.size(), 1u) << "the end is excluded before a 2";
      share[one.tokens.front()] += 1.0 / 4000.0;
    }
    const std::vector<float> scores = scores_after(0, {});
    double sum = 0.0;
    for (int32_t token = 1; token < kVocabulary; ++token)
      sum += std::exp(double{scores[static_cast<size_t>(token)]} / temperature);
    for (int32_t token = 1; token < kVocabulary; ++token) {
      const double expected =
          std::exp(double{scores[static_cast<size_t>(token)]} / temperature) / sum;
      // Three standard deviations.
      EXPECT_NEAR(share[token], expected, 3.0 * std::sqrt(expected / 4000.0)) << temperature;
    }
  }
}

TEST(TokenSampling, DependsOnTheUtteranceAndTheAttemptAlone) {
  const std::vector<TokenHypothesis> all = drawn({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 2.0);
  const std::vector<TokenHypothesis> some = drawn({9, 4}, 2.0);
  EXPECT_EQ(some[0].tokens, all[9].tokens);
  EXPECT_EQ(some[1].tokens, all[4].tokens);
  const std::vector<TokenHypothesis> again = drawn({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 2.0, 1);
  int64_t num_same = 0;
  for (size_t u = 0; u < 10; ++u) num_same += again[u].tokens == all[u].tokens ? 1 : 0;
  EXPECT_LT(num_same, 9);
}

TEST(TokenSearch, LeavesUtterancesAloneThatAreNotSearched) {
  DrawnScorer scorer(6, 4);
  const std::vector<TokenHypothesis> all = find_tokens(scorer, {.width = 3});
  const std::vector<TokenHypothesis> some =
      find_tokens(scorer, {.width = 3, .is_searched = {false, true, false, false, true, true}});
  for (const size_t u : {1u, 4u, 5u}) EXPECT_EQ(some[u].tokens, all[u].tokens) << u;
  for (const size_t u : {0u, 2u, 3u}) EXPECT_TRUE(some[u].tokens.empty()) << u;
  EXPECT_FALSE(all[0].tokens.empty() && all[2].tokens.empty() && all[3].tokens.empty());
}

}  // namespace
}  // namespace sotto::decode
