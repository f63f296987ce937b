// Searches that are repeated at higher temperatures.
#include "sotto/decode/fallback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "unit/decode/drawn_scorer.h"

namespace sotto::decode::fallback_test {
namespace {

using test::DrawnScorer;

constexpr int64_t kUtterances = 40;

std::string letters_of(std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) text += std::string(12, static_cast<char>('a' + token));
  return text;
}

FallbackInput input() {
  FallbackInput input{.seed = 7, .text_of = letters_of};
  for (uint64_t u = 0; u < kUtterances; ++u) input.utterances.push_back({.utterance = 100 + u});
  return input;
}

// Thresholds that some of the drawn utterances fail.
const FallbackOptions kOptions{.temperatures = {0.0, 0.5, 1.5},
                               .max_compression = 2.5,
                               .min_log_probability = -0.6,
                               .no_speech = 2.0};

TokenSearchOptions beam() {
  return {.width = 3, .length_penalty = 1.0};
}

TEST(Fallback, RepeatsWhatFailsAtTheNextTemperature) {
  DrawnScorer scorer(kUtterances, 8);
  const FallbackInput in = input();
  const std::vector<FallbackResult> results = find_with_fallback(scorer, beam(), kOptions, in);
  // All attempts of all utterances, by themselves.
  std::vector<std::vector<TokenHypothesis>> attempts = {find_tokens(scorer, beam())};
  for (const uint64_t attempt : {1u, 2u}) {
    const TokenSampling sampling{.temperature = kOptions.temperatures[attempt],
                                 .key = {.seed = 7, .purpose = Purpose::kSampling, .step = attempt},
                                 .utterances = in.utterances};
    attempts.push_back(find_tokens(scorer, {.sampling = &sampling}));
  }
  std::vector<int64_t> num_by_attempt(3, 0);
  int64_t num_repetitive = 0;
  for (size_t u = 0; u < kUtterances; ++u) {
    size_t attempt = 0;
    for (; attempt < 2; ++attempt) {
      const TokenHypothesis& found = attempts[attempt][u];
      const bool is_repetitive = compression_of(letters_of(found.tokens)) > 2.5;
      if (!is_repetitive && found.mean_log_probability >= -0.6) break;
      num_repetitive += is_repetitive ? 1 : 0;
    }
    ++num_by_attempt[attempt];
    EXPECT_EQ(results[u].temperature, kOptions.temperatures[attempt]) << u;
    EXPECT_EQ(results[u].hypothesis.tokens, attempts[attempt][u].tokens) << u;
    EXPECT_FALSE(results[u].is_silent);
  }
  for (const int64_t count : num_by_attempt) EXPECT_GT(count, 2);
  EXPECT_GT(num_repetitive, 2);
}

TEST(Fallback, TakesImprobableTextForSilenceWhereNoSpeechIsLikely) {
  DrawnScorer scorer(kUtterances, 8);
  TokenPrompts prompts{.tokens = std::vector<std::vector<int32_t>>(kUtterances, {1}),
                       .measured = 2};
  TokenSearchOptions search = beam();
  search.prompts = &prompts;
  FallbackOptions options = kOptions;
  options.no_speech = 0.3;
  options.min_log_probability = -0.4;
  const std::vector<FallbackResult> results = find_with_fallback(scorer, search, options, input());
  int64_t num_silent = 0, num_heard = 0;
  for (size_t u = 0; u < kUtterances; ++u) {
    const FallbackResult& result = results[u];
    const double no_speech = std::exp(double{test::scores_after(static_cast<int64_t>(u), {1})[2]});
    EXPECT_NEAR(result.hypothesis.measured_probability, no_speech, 1e-6);
    const bool is_improbable = result.hypothesis.mean_log_probability < -0.4;
    EXPECT_EQ(result.is_silent, is_improbable && no_speech > 0.3) << u;
    // Silence is not searched again.
    num_silent += result.is_silent && result.temperature == 0.0 ? 1 : 0;
    num_heard += !is_improbable && no_speech > 0.3 ? 1 : 0;
  }
  EXPECT_GT(num_silent, 2);
  EXPECT_GT(num_heard, 1) << "likely text is no silence";
}

TEST(Fallback, WithOneTemperatureIsTheSearchItself) {
  DrawnScorer scorer(kUtterances, 8);
  FallbackOptions options = kOptions;
  options.temperatures = {0.0};
  const std::vector<FallbackResult> results = find_with_fallback(scorer, beam(), options, input());
  const std::vector<TokenHypothesis> plain = find_tokens(scorer, beam());
  for (size_t u = 0; u < kUtterances; ++u)
    EXPECT_EQ(results[u].hypothesis.tokens, plain[u].tokens) << u;
}

TEST(Compression, IsThatOfZlib) {
  EXPECT_EQ(compression_of(""), 0.0);
  // Lengths of Python's zlib.compress: 11 bytes for 3, 14 for 400.
  EXPECT_DOUBLE_EQ(compression_of("abc"), 3.0 / 11.0);
  EXPECT_DOUBLE_EQ(compression_of(std::string(400, 'a')), 400.0 / 14.0);
}

}  // namespace
}  // namespace sotto::decode::fallback_test
