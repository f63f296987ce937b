// Decoding token by token with a cache: the same scores as the whole sequence at once, whatever
// hypotheses continue from which.
#include "sotto/models/parts/attention_scorer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "sotto/core/config/config.h"
#include "sotto/models/model_options.h"

namespace sotto::models {
namespace {

using Tokens = std::vector<int32_t>;

constexpr DataShape kFeatureShape{.vocabulary = 6, .blank = 0, .feature_dim = 9};
constexpr int32_t kEndOfSentence = 6;

// Three utterances for a tiny network with an attention decoder, with these labels.
struct Decoded {
  explicit Decoded(const std::vector<Tokens>& labels, at::ScalarType compute = at::kFloat) {
    at::manual_seed(3);
    model = read_overrides<ModelOptions>({"preset=conformer-128", "objective=attention", "layers=1",
                                          "width=16", "heads=2", "hidden=24", "decoder_layers=3",
                                          "kernel=7"})
                .make(kFeatureShape, {}, compute);
    std::vector<data::Example> examples;
    const std::vector<int64_t> num_frames = {30, 12, 51};
    for (size_t i = 0; i < labels.size(); ++i) {
      const at::Tensor values = at::randn({num_frames[i], kFeatureShape.feature_dim});
      const float* first = values.const_data_ptr<float>();
      examples.push_back({.utterance = static_cast<int64_t>(i),
                          .values = {first, first + values.numel()},
                          .rows = num_frames[i],
                          .feature_dim = kFeatureShape.feature_dim,
                          .labels = labels[i]});
    }
    std::vector<int64_t> indices(examples.size());
    std::iota(indices.begin(), indices.end(), int64_t{0});
    device::HostMemory host(at::kCPU);
    device::StagingBuffer staging(host);
    recognition = model->recognise(
        data::make_micro_batch(examples, indices, staging, {.decoder = model->outline().decoder}));
  }

  // The log-probability of each utterance's labels and their end, at once.
  at::Tensor whole() const { return -recognition.losses.terms.back(); }
  Scorer& scorer() const { return *recognition.scorer; }

  std::unique_ptr<Model> model;
  Recognition recognition;
};

TEST(AttentionScorer, GivesTheScoresOfTheWholeSequence) {
  const std::vector<Tokens> labels = {{1, 2, 3, 4}, {5}, {2, 2, 1, 3, 5, 1, 4}};
  for (const auto& [type, tolerance] :
       {std::pair(at::kFloat, 1e-4), std::pair(at::kBFloat16, 0.15), std::pair(at::kHalf, 0.02)}) {
    const Decoded decoded(labels, type);
    at::Tensor scores = decoded.scorer().begin({.max_tokens = 8});
    std::vector<double> sums(labels.size(), 0.0);
    for (size_t at = 0; at < 8; ++at) {
      Tokens next;
      for (size_t u = 0; u < labels.size(); ++u) {
        next.push_back(at < labels[u].size() ? labels[u][at] : kEndOfSentence);
        if (at <= labels[u].size())
          sums[u] += scores[static_cast<int64_t>(u)][next.back()].item<double>();
      }
      if (at + 1 < 8) scores = decoded.scorer().step(next);
    }
    for (size_t u = 0; u < labels.size(); ++u)
      EXPECT_NEAR(sums[u], decoded.whole()[static_cast<int64_t>(u)].item<double>(), tolerance)
          << c10::toString(type) << ", " << u;
  }
}

// Scores after a history, decoded by itself.
at::Tensor alone(const Decoded& decoded, int64_t utterance, const Tokens& history) {
  at::Tensor scores = decoded.scorer().begin({.max_tokens = 9});
  for (const int32_t token : history)
    scores = decoded.scorer().step(Tokens(static_cast<size_t>(decoded.scorer().size()), token));
  return scores[utterance].clone();
}

// Hypotheses split, swap, come together and end.
TEST(AttentionScorer, ContinuesFromWhateverWasKept) {
  const Decoded decoded({{1}, {2}, {3}});
  struct Row {
    int64_t utterance;
    Tokens history;
  };
  std::vector<Row> rows = {{0, {}}, {1, {}}, {2, {}}};
  const std::vector<std::vector<int64_t>> orders = {
      {0, 0, 1, 1, 1, 2}, {1, 0, 4, 2, 2, 5}, {1, 1, 1, 3, 5, 5, 5}, {0, 6, 4}};
  std::vector<std::pair<Row, at::Tensor>> found;
  decoded.scorer().begin({.width = 3, .max_tokens = 9});
  int32_t drawn = 1;
  for (const std::vector<int64_t>& order : orders) {
    std::vector<Row> next;
    for (const int64_t source : order) next.push_back(rows.at(static_cast<size_t>(source)));
    rows = std::move(next);
    decoded.scorer().reorder(order);
    Tokens tokens;
    for (Row& row : rows) {
      tokens.push_back(1 + (drawn = (7 * drawn + 3) % 31) % 5);
      row.history.push_back(tokens.back());
    }
    const at::Tensor scores = decoded.scorer().step(tokens);
    for (size_t i = 0; i < rows.size(); ++i)
      found.emplace_back(rows[i], scores[static_cast<int64_t>(i)].clone());
  }
  for (const auto& [row, scores] : found)
    EXPECT_TRUE(at::allclose(scores, alone(decoded, row.utterance, row.history), 1e-4, 1e-4))
        << row.utterance;
}

// A prompt is what would be said after the start, and takes no memory from the search.
TEST(AttentionScorer, BeginsAfterThePromptOfEachUtterance) {
  const Decoded decoded({{1}, {2}, {3}});
  const std::vector<Tokens> prompts = {
      {kEndOfSentence, 2, 5}, {kEndOfSentence, 1, 1}, {kEndOfSentence, 4, 3}};
  constexpr int64_t kWidth = 2, kMostTokens = 4;
  const at::Tensor first =
      decoded.scorer()
          .begin({.width = kWidth, .max_tokens = kMostTokens, .prompts = prompts})
          .clone();
  decoded.scorer().reorder(std::vector<int64_t>{0, 0, 1, 1, 2, 2});
  at::Tensor last;
  for (int64_t token = 1; token < kMostTokens; ++token)
    last = decoded.scorer().step(Tokens{1, 2, 3, 4, 5, 1}).clone();
  for (int64_t u = 0; u < 3; ++u) {
    const Tokens& prompt = prompts[static_cast<size_t>(u)];
    Tokens history(prompt.begin() + 1, prompt.end());
    EXPECT_TRUE(at::allclose(first[u], alone(decoded, u, history), 1e-4, 1e-4)) << u;
    history.insert(history.end(), 3, static_cast<int32_t>(2 * u + 1));
    EXPECT_TRUE(at::allclose(last[2 * u], alone(decoded, u, history), 1e-4, 1e-4)) << u;
  }
}

TEST(AttentionScorer, RecordsTheShareOfEachFrame) {
  const Decoded decoded({{1}, {2}, {3}});
  decoded.scorer().begin({.max_tokens = 3, .records_frames = true});
  for (int step = 0; step < 2; ++step) {
    const at::Tensor weights = decoded.scorer().frame_weights();
    const std::vector<int64_t>& frames = decoded.scorer().num_frames();
    EXPECT_EQ(frames, std::vector<int64_t>({8, 3, 13}));
    ASSERT_EQ(weights.sizes(), at::IntArrayRef({3, 13}));
    for (int64_t u = 0; u < 3; ++u) {
      const at::Tensor own = weights[u].narrow(0, 0, frames[static_cast<size_t>(u)]);
      EXPECT_NEAR(own.sum().item<double>(), 1.0, 1e-5);
      EXPECT_EQ(weights[u].sum().item<float>(), own.sum().item<float>());
    }
    decoded.scorer().step(Tokens{1, 2, 3});
  }
}

}  // namespace
}  // namespace sotto::models
