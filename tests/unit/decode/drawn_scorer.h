// A scripted decoder for tests of searches: what may follow is drawn from what came before.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sotto/core/rng.h"
#include "sotto/models/scorer.h"

namespace sotto::test {

using Tokens = std::vector<int32_t>;

inline constexpr int32_t kEnd = 0;
inline constexpr int64_t kVocabulary = 4;

// Log-probabilities of what may follow a history, drawn from the history itself: a hypothesis that
// went on from the wrong one would get other scores.
inline std::vector<float> scores_after(int64_t utterance, const Tokens& history) {
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
  // Frames of each utterance: the most tokens that it may have.
  explicit DrawnScorer(std::vector<int64_t> num_frames) : Scorer(std::move(num_frames), kEnd) {}
  DrawnScorer(int64_t num_utterances, int64_t num_frames)
      : DrawnScorer(std::vector<int64_t>(static_cast<size_t>(num_utterances), num_frames)) {}

  at::Tensor begin(const Limits& limits) override {
    limits_ = limits;
    rows_.clear();
    for (int64_t utterance = 0; utterance < size(); ++utterance) rows_.push_back({utterance, {}});
    for (int64_t utterance = 0; utterance < std::ssize(limits.prompts); ++utterance)
      rows_[static_cast<size_t>(utterance)].history =
          limits.prompts[static_cast<size_t>(utterance)];
    num_given_ = std::ssize(rows_.front().history);
    return scores();
  }
  at::Tensor step(std::span<const int32_t> tokens) override {
    EXPECT_EQ(tokens.size(), rows_.size());
    EXPECT_LE(std::ssize(rows_), limits_.width * size());
    for (size_t i = 0; i < tokens.size(); ++i) rows_[i].history.push_back(tokens[i]);
    EXPECT_LT(std::ssize(rows_.front().history), num_given_ + limits_.max_tokens);
    return scores();
  }
  void reorder(std::span<const int64_t> sources) override {
    std::vector<Row> next;
    for (const int64_t source : sources) next.push_back(rows_.at(static_cast<size_t>(source)));
    rows_ = std::move(next);
  }
  at::Tensor frame_weights() const override { return {}; }

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

  Limits limits_;
  int64_t num_given_ = 0;
  std::vector<Row> rows_;
};

}  // namespace sotto::test
