// Rules, beam search, segments and time warping of Whisper against transformers, by way of
// tests/fixtures/whisper_decoding.json, which make_whisper_decoding.py makes.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "sotto/decode/long_recording.h"
#include "sotto/decode/time_warping.h"
#include "sotto/decode/token_search.h"
#include "sotto/decode/whisper_rules.h"
#include "support/fixture.h"

namespace sotto::test {
namespace {

using nlohmann::json;
using Tokens = std::vector<int32_t>;

const json& whisper_decoding() {
  static const json fixture = read_fixture("whisper_decoding");
  return fixture;
}

TEST(WhisperDecodingOracle, RulesAllowTheSameTokens) {
  const json& rules = whisper_decoding().at("rules");
  ASSERT_GE(rules.at("rows").size(), 80u);
  for (const json& row : rules.at("rows")) {
    SCOPED_TRACE(row.at("tokens").dump());
    decode::TimestampRules timestamps{.first_timestamp = rules.at("first_timestamp"),
                                      .end = rules.at("end")};
    if (!row.at("max_initial_index").is_null())
      timestamps.max_initial_index = row.at("max_initial_index").get<int32_t>();
    const decode::WhisperRules made({.suppressed = rules.at("suppressed"),
                                     .suppressed_first = rules.at("suppressed_first"),
                                     .timestamps = timestamps});
    auto scores = row.at("scores").get<std::vector<float>>();
    made.apply(row.at("tokens").get<Tokens>(), scores);
    Tokens allowed;
    for (size_t token = 0; token < scores.size(); ++token)
      if (std::isfinite(scores[token])) allowed.push_back(static_cast<int32_t>(token));
    EXPECT_EQ(allowed, row.at("allowed").get<Tokens>());
  }
}

// The logits of what follows depend on the last token and its position.
class TableScorer : public models::Scorer {
 public:
  TableScorer(at::Tensor logits, int32_t end)  // [positions, V, V]
      : Scorer({100}, end), scores_(logits.log_softmax(2)) {}

  at::Tensor begin(const Limits& limits) override {
    rows_ = {limits.prompts[0]};
    return scores();
  }
  at::Tensor step(std::span<const int32_t> tokens) override {
    for (size_t i = 0; i < tokens.size(); ++i) rows_[i].push_back(tokens[i]);
    return scores();
  }
  void reorder(std::span<const int64_t> sources) override {
    std::vector<Tokens> next;
    for (const int64_t source : sources) next.push_back(rows_.at(static_cast<size_t>(source)));
    rows_ = std::move(next);
  }
  at::Tensor frame_weights() const override { return {}; }

 private:
  at::Tensor scores() const {
    std::vector<at::Tensor> all;
    for (const Tokens& row : rows_) all.push_back(scores_[std::ssize(row) - 1][row.back()]);
    return at::stack(all);
  }

  at::Tensor scores_;
  std::vector<Tokens> rows_;
};

TEST(WhisperDecodingOracle, BeamsFindTheSameSequences) {
  const json& searches = whisper_decoding().at("searches");
  ASSERT_GE(searches.at("rows").size(), 40u);
  const auto size = searches.at("size").get<int64_t>();
  const decode::TokenPrompts prompts{.tokens = {searches.at("prompt").get<Tokens>()}};
  for (const json& row : searches.at("rows")) {
    const auto beams = row.at("beams").get<int64_t>();
    const auto penalty = row.at("length_penalty").get<double>();
    SCOPED_TRACE(fmt::format("{} beams, penalty {}", beams, penalty));
    TableScorer scorer(fixture_tensor(row.at("logits")).to(at::kFloat).view({-1, size, size}),
                       searches.at("end"));
    const decode::TokenHypothesis found =
        decode::find_tokens(scorer, {.width = beams,
                                     .max_positions = searches.at("max_length"),
                                     .length_penalty = penalty,
                                     .prompts = &prompts})
            .front();
    EXPECT_EQ(found.tokens, row.at("tokens").get<Tokens>());
    // Rounded to three digits.
    const json& score = row.at("score");
    EXPECT_TRUE(score.is_null() || std::abs(found.score - score.get<double>()) < 6e-4);
  }
}

// The second window begins at 12.5 s: the first has a pair of timestamps there.
TEST(WhisperDecodingOracle, WindowsHaveTheSameSegments) {
  const auto first = whisper_decoding().at("rules").at("first_timestamp").get<int32_t>();
  ASSERT_GE(whisper_decoding().at("segments").size(), 40u);
  for (const json& row : whisper_decoding().at("segments")) {
    SCOPED_TRACE(row.dump());
    const auto num_frames = row.at("num_frames").get<int64_t>();
    std::vector<int64_t> begins;
    const std::vector<decode::SegmentTokens> found =
        decode::find_segments({.num_frames = 1250 + 2 * num_frames,
                               .window_frames = num_frames,
                               .first_timestamp = first},
                              [&](const decode::RecordingWindow& window) -> decode::WindowTokens {
                                begins.push_back(window.first_frame);
                                if (begins.size() == 1)
                                  return {.tokens = {first, 1, first + 625, first + 625}};
                                if (begins.size() > 2) return {.is_silent = true};
                                return {.tokens = row.at("tokens").get<Tokens>()};
                              });
    ASSERT_EQ(found.size(), 1 + row.at("segments").size());
    for (size_t i = 1; i < found.size(); ++i) {
      const json& segment = row.at("segments")[i - 1];
      Tokens text;
      for (const int32_t token : found[i].tokens)
        if (token < first) text.push_back(token);
      EXPECT_EQ(text, segment.at("text").get<Tokens>());
      EXPECT_NEAR(found[i].start_s, segment.at("start").get<double>(), 1e-9);
      EXPECT_NEAR(found[i].end_s, segment.at("end").get<double>(), 1e-9);
    }
    ASSERT_GE(begins.size(), 3u);
    EXPECT_EQ(begins[2] - begins[1], row.at("advance").get<int64_t>());
  }
}

TEST(WhisperDecodingOracle, PathsAreTheSame) {
  const json& warping = whisper_decoding().at("warping");
  for (const json& row : warping.at("paths")) {
    const at::Tensor costs = fixture_tensor(row.at("costs")).contiguous();
    const decode::WarpPath path = decode::cheapest_path(
        std::span(costs.const_data_ptr<double>(), static_cast<size_t>(costs.numel())),
        costs.size(1));
    EXPECT_EQ(path.rows, row.at("rows").get<std::vector<int64_t>>()) << costs.sizes();
    EXPECT_EQ(path.columns, row.at("columns").get<std::vector<int64_t>>()) << costs.sizes();
  }
}

TEST(WhisperDecodingOracle, MediansAndTimesOfTokensAreTheSame) {
  const json& warping = whisper_decoding().at("warping");
  for (const json& row : warping.at("filters"))
    EXPECT_EQ(decode::median_filtered(row.at("row").get<std::vector<float>>(), row.at("width")),
              row.at("filtered").get<std::vector<float>>());
  for (const json& row : warping.at("timed")) {
    const at::Tensor weights = fixture_tensor(row.at("weights")).to(at::kFloat).contiguous();
    const decode::HeadWeights heads{
        .values = std::span(weights.const_data_ptr<float>(), static_cast<size_t>(weights.numel())),
        .num_heads = weights.size(0),
        .num_frames = weights.size(2)};
    EXPECT_EQ(decode::warped_frames(heads), row.at("frames").get<std::vector<int64_t>>());
  }
}

}  // namespace
}  // namespace sotto::test
