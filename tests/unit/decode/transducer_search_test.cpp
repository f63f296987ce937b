#include "sotto/decode/transducer_search.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "sotto/core/rng.h"

namespace sotto::decode {
namespace transducer_search_test {

using models::LatticeScorer;
using Tokens = std::vector<int32_t>;

constexpr int32_t kBlank = 2;
constexpr int64_t kEntries = 3;

// Logits of what may follow some labels at a frame, drawn from the labels themselves: a hypothesis
// that went on from the wrong memory would get other scores.
std::vector<float> drawn_logits(const LatticeScorer::Node& node, const Tokens& labels,
                                int64_t width) {
  uint64_t index = 17 + static_cast<uint64_t>(node.frame);
  for (const int32_t label : labels) index = 31 * index + static_cast<uint64_t>(label) + 1;
  const RandomStream stream({.seed = 5}, {.utterance = static_cast<uint64_t>(node.utterance)});
  std::vector<float> logits;
  for (int64_t i = 0; i < width; ++i)
    logits.push_back(
        2.0f * stream.normal(static_cast<uint64_t>(width) * index + static_cast<uint64_t>(i)));
  return logits;
}

class DrawnLattice : public LatticeScorer {
 public:
  DrawnLattice(std::vector<int64_t> num_frames, std::vector<int64_t> durations)
      : LatticeScorer(std::move(num_frames), kBlank, std::move(durations)) {}

  bool is_dry() const override { return false; }

  void begin(int64_t num_memories) override {
    memories_.assign(static_cast<size_t>(num_memories), {});
    is_written_.assign(memories_.size(), false);
    is_written_[0] = true;
  }

  at::Tensor score(std::span<const Node> nodes) override {
    std::vector<float> all;
    for (const Node& node : nodes) {
      EXPECT_LT(node.frame, num_frames().at(static_cast<size_t>(node.utterance)));
      EXPECT_TRUE(is_written_.at(static_cast<size_t>(node.memory)));
      const std::vector<float> logits =
          drawn_logits(node, memories_.at(static_cast<size_t>(node.memory)), width());
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return at::tensor(all).view({-1, width()});
  }

  void append(std::span<const Append> labels) override {
    std::set<int64_t> written;
    for (const Append& one : labels) {
      EXPECT_TRUE(is_written_.at(static_cast<size_t>(one.from)));
      EXPECT_TRUE(written.insert(one.to).second);
      EXPECT_NE(one.to, 0);
    }
    const std::vector<Tokens> before = memories_;
    for (const Append& one : labels) {
      EXPECT_TRUE(one.from == one.to || !written.contains(one.from));
      Tokens& to = memories_.at(static_cast<size_t>(one.to));
      to = before[static_cast<size_t>(one.from)];
      to.push_back(one.label);
      is_written_[static_cast<size_t>(one.to)] = true;
    }
  }

  int64_t width() const { return kEntries + std::ssize(durations()); }

 private:
  std::vector<Tokens> memories_;
  std::vector<bool> is_written_;
};

std::vector<double> log_softmax(std::span<const float> logits) {
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(double{logit});
  std::vector<double> scores;
  for (const float logit : logits) scores.push_back(double{logit} - std::log(sum));
  return scores;
}

// The probability of every label sequence of an utterance, by all alignments with at most
// `max_symbols` labels at a frame that end exactly after the last frame.
class AllAlignments {
 public:
  AllAlignments(const DrawnLattice& lattice, int64_t utterance, int64_t max_symbols)
      : lattice_(lattice), utterance_(utterance), max_symbols_(max_symbols) {
    visit({}, 0, 0, 0.0);
  }

  std::pair<Tokens, double> best() const {
    const auto found =
        std::ranges::max_element(probabilities_, {}, [](const auto& one) { return one.second; });
    return {found->first, std::log(found->second)};
  }

 private:
  void visit(const Tokens& labels, int64_t frame, int64_t num_symbols, double score) {
    const std::vector<float> logits =
        drawn_logits({.utterance = utterance_, .frame = frame}, labels, lattice_.width());
    const auto entries = log_softmax(std::span(logits).first(kEntries));
    const auto durations = log_softmax(std::span(logits).subspan(kEntries));
    for (int32_t entry = 0; entry < kEntries; ++entry) {
      const double with_entry = score + entries[static_cast<size_t>(entry)];
      if (lattice_.durations().empty()) {
        go(labels, entry, {frame, entry == kBlank ? 1 : 0}, num_symbols, with_entry);
        continue;
      }
      for (size_t i = 0; i < durations.size(); ++i)
        go(labels, entry, {frame, lattice_.durations()[i]}, num_symbols, with_entry + durations[i]);
    }
  }

  void go(Tokens labels, int32_t entry, std::pair<int64_t, int64_t> from, int64_t num_symbols,
          double score) {
    const auto [frame, duration] = from;
    const int64_t end = lattice_.num_frames()[static_cast<size_t>(utterance_)];
    const int64_t next = frame + duration;
    if (entry == kBlank) {
      if (duration == 0 || next > end) return;
      if (next == end) {
        probabilities_[labels] += std::exp(score);
        return;
      }
    } else {
      if (num_symbols == max_symbols_ || next >= end) return;
      labels.push_back(entry);
    }
    visit(labels, next, duration == 0 ? num_symbols + 1 : 0, score);
  }

  const DrawnLattice& lattice_;
  int64_t utterance_;
  int64_t max_symbols_;
  std::map<Tokens, double> probabilities_;
};

Tokens tokens_of(const TransducerHypothesis& found) {
  Tokens tokens;
  for (const kernels::CtcGreedy::Label& label : found.labels) tokens.push_back(label.label);
  return tokens;
}

class TransducerSearch : public ::testing::TestWithParam<std::vector<int64_t>> {};

TEST_P(TransducerSearch, WideBeamFindsTheLikeliestSequence) {
  DrawnLattice lattice({1, 3, 2, 4}, GetParam());
  for (const int64_t max_symbols : {1, 2}) {
    const std::vector<TransducerHypothesis> found =
        find_transducer_labels(lattice, {.width = 2'000, .max_symbols = max_symbols});
    for (int64_t u = 0; u < lattice.size(); ++u) {
      const auto [labels, score] = AllAlignments(lattice, u, max_symbols).best();
      EXPECT_EQ(tokens_of(found[static_cast<size_t>(u)]), labels);
      EXPECT_NEAR(found[static_cast<size_t>(u)].score, score, 1e-5);
    }
  }
}

// Batches only save time.
TEST_P(TransducerSearch, FindsTheSameForEachUtteranceAlone) {
  for (const int64_t width : {1, 3}) {
    DrawnLattice together({6, 1, 9}, GetParam());
    const auto found = find_transducer_labels(together, {.width = width, .max_symbols = 3});
    ASSERT_EQ(found.size(), 3u);
    // Utterances are drawn by their number: the others have one frame here.
    for (size_t u = 0; u < found.size(); ++u) {
      std::vector<int64_t> num_frames(found.size(), 1);
      num_frames[u] = together.num_frames()[u];
      DrawnLattice alone(num_frames, GetParam());
      const auto expected = find_transducer_labels(alone, {.width = width, .max_symbols = 3});
      EXPECT_EQ(found[u].labels, expected[u].labels);
      EXPECT_EQ(found[u].score, expected[u].score);
    }
  }
}

TEST_P(TransducerSearch, WiderBeamsFindNothingWorse) {
  DrawnLattice lattice({7, 12}, GetParam());
  std::vector<double> last(2, -1e9);
  for (const int64_t width : {2, 8, 200}) {
    const auto found = find_transducer_labels(lattice, {.width = width, .max_symbols = 3});
    for (size_t u = 0; u < last.size(); ++u) {
      EXPECT_GE(found[u].score, last[u] - 1e-9);
      last[u] = found[u].score;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Durations, TransducerSearch,
                         ::testing::Values(std::vector<int64_t>{}, std::vector<int64_t>{0, 1, 2},
                                           std::vector<int64_t>{0, 1, 2, 3, 4}),
                         [](const auto& one) {
                           return one.param.empty() ? std::string("Rnnt")
                                                    : "Tdt" + std::to_string(one.param.size());
                         });

// The same logits at each node.
class ConstantLattice : public LatticeScorer {
 public:
  ConstantLattice(std::vector<float> logits, int64_t num_frames, std::vector<int64_t> durations)
      : LatticeScorer({num_frames}, kBlank, std::move(durations)), logits_(std::move(logits)) {}

  bool is_dry() const override { return false; }
  void begin(int64_t) override {}
  at::Tensor score(std::span<const Node> nodes) override {
    return at::tensor(logits_).unsqueeze(0).repeat({std::ssize(nodes), 1});
  }
  void append(std::span<const Append>) override {}

 private:
  std::vector<float> logits_;
};

std::vector<int64_t> frames_of(ConstantLattice lattice, int64_t max_symbols) {
  const std::vector<TransducerHypothesis> found =
      find_transducer_labels(lattice, {.max_symbols = max_symbols});
  std::vector<int64_t> frames;
  for (const kernels::CtcGreedy::Label& label : found.front().labels) frames.push_back(label.frame);
  return frames;
}

TEST(GreedyTransducer, StaysAtAFrameForAtMostMaxSymbols) {
  EXPECT_EQ(frames_of({{5, 0, 0}, 2, {}}, 3), (std::vector<int64_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(frames_of({{5, 0, 0, 1, 0}, 2, {0, 1}}, 2), (std::vector<int64_t>{0, 0, 1, 1}));
}

TEST(GreedyTransducer, SkipsByDurations) {
  EXPECT_EQ(frames_of({{5, 0, 0, 0, 0, 1}, 5, {0, 1, 2}}, 3), (std::vector<int64_t>{0, 2, 4}));
}

TEST(GreedyTransducer, BlankWithoutDurationMovesOn) {
  EXPECT_TRUE(frames_of({{0, 0, 5, 1, 0}, 4, {0, 1}}, 3).empty());
}

TEST(GreedyTransducer, DurationsAreValuesNotIndices) {
  EXPECT_EQ(frames_of({{5, 0, 0, 0, 1}, 9, {1, 4}}, 3), (std::vector<int64_t>{0, 4, 8}));
}

}  // namespace transducer_search_test
}  // namespace sotto::decode
