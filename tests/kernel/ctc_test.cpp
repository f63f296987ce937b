// CTC against ATen's in double precision, and what it promises where ATen's has no answer.
#include "sotto/kernels/loss/ctc.h"
#include "sotto/models/reduction.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sotto/core/error.h"
#include "sotto/kernels/loss/ctc_greedy.h"
#include "support/ctc_pack.h"
#include "support/thrown.h"
#include "support/tolerance.h"

namespace sotto::kernels {
namespace ctc_test {

using test::Dice;
using test::draw_labels;
using test::LabelList;
using test::over_weights;
using test::Pack;
using test::rows_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Outcome {
  at::Tensor loss;
  at::Tensor gradient;
  std::vector<int64_t> infeasible;
};

Outcome run(const Pack& pack) {
  const Packing packing(pack.lengths, at::kCPU);
  const Labels labels(pack.labels, at::kCPU);
  at::Tensor gradient = pack.logits.clone();
  const Ctc::Result result = Ctc::forward(
      gradient, {.packing = packing, .labels = labels, .blank = pack.blank}, pack.weights);
  return {.loss = result.loss, .gradient = gradient, .infeasible = result.infeasible};
}

// ATen's loops over one small utterance take longer to wake a core than to run.
class OnOneCore {
 public:
  OnOneCore() { at::set_num_threads(1); }
  ~OnOneCore() { at::set_num_threads(before_); }
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  int before_ = at::get_num_threads();
};

Outcome truth_of(const Pack& pack) {
  const OnOneCore one_core;
  const at::Tensor logits = pack.logits.to(at::kDouble).set_requires_grad(true);
  const std::vector<at::Tensor> utterances = logits.split_with_sizes(pack.lengths);
  std::vector<at::Tensor> losses;
  for (size_t u = 0; u < utterances.size(); ++u) {
    const at::Tensor log_probabilities = at::log_softmax(utterances[u], 1).unsqueeze(1);
    const at::Tensor targets = at::tensor(pack.labels[u], at::kLong).unsqueeze(0);
    losses.push_back(at::ctc_loss(log_probabilities, targets, {pack.lengths[u]}, {targets.size(1)},
                                  pack.blank, at::Reduction::None, /*zero_infinity=*/true));
  }
  const at::Tensor loss = at::cat(losses);
  loss.backward(at::tensor(pack.weights, at::kDouble));
  return {.loss = loss.detach(), .gradient = logits.grad(), .infeasible = {}};
}

double gradient_error(const Outcome& ours, const Outcome& truth, const Pack& pack) {
  const at::Tensor difference =
      over_weights(ours.gradient, pack) - over_weights(truth.gradient, pack);
  return difference.abs().max().item<double>();
}

void expect_equal(const Outcome& ours, const Outcome& truth, const Pack& pack) {
  const double tolerance = test::kernel_tolerance(pack.logits.scalar_type());
  // The loss is fp32 whatever the logits are.
  EXPECT_LE(test::loss_error(ours.loss, truth.loss), test::kernel_tolerance(at::kFloat));
  EXPECT_LE(gradient_error(ours, truth, pack), tolerance);
}

int64_t frames_needed(const LabelList& labels) {
  int64_t frames = 0;
  while (!Ctc::is_feasible(frames, labels)) ++frames;
  return frames;
}

struct Seen {
  int64_t just_feasible = 0;
  int64_t infeasible = 0;
  int64_t without_labels = 0;
  int64_t above_256_labels = 0;
};

Pack draw_pack(Dice& dice, int64_t max_frames, Seen& seen) {
  Pack pack;
  const int64_t vocabulary = dice.between(2, 40);
  pack.blank = dice.between(0, vocabulary - 1);
  for (int64_t u = dice.between(1, 6); u > 0; --u) {
    const int64_t frames = dice.between(1, max_frames);
    const int64_t count = dice.chance(0.1) ? 0 : dice.between(0, frames);
    LabelList labels = draw_labels(dice, count, vocabulary, pack.blank);
    const bool may_be_infeasible = dice.chance(0.3);
    while (!may_be_infeasible && !Ctc::is_feasible(frames, labels)) labels.pop_back();
    if (!Ctc::is_feasible(frames, labels)) ++seen.infeasible;
    if (frames == frames_needed(labels)) ++seen.just_feasible;
    if (labels.empty()) ++seen.without_labels;
    if (labels.size() > 256) ++seen.above_256_labels;
    pack.add(frames, std::move(labels), 0.1f + 2.0f * dice.uniform());
  }
  pack.draw_logits(dice, vocabulary, 4.0f * dice.uniform());
  return pack;
}

TEST(Ctc, AgreesWithDoublePrecisionOnRandomPacks) {
  Seen seen;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const Pack pack = draw_pack(dice, seed % 25 == 0 ? 700 : 60, seen);
    const Outcome ours = run(pack);
    expect_equal(ours, truth_of(pack), pack);
    for (size_t u = 0; u < pack.labels.size(); ++u) {
      const bool listed = std::ranges::count(ours.infeasible, static_cast<int64_t>(u)) == 1;
      EXPECT_EQ(listed, !Ctc::is_feasible(pack.lengths[u], pack.labels[u]));
    }
  }
  EXPECT_GT(seen.infeasible, 50);
  EXPECT_GT(seen.just_feasible, 100);
  EXPECT_GT(seen.without_labels, 100);
  EXPECT_GT(seen.above_256_labels, 10);
}

TEST(Ctc, AgreesWithDoublePrecisionIn16BitTypes) {
  Seen seen;
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (uint64_t seed = 1000; seed < 1050; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Dice dice(seed);
      Pack pack = draw_pack(dice, 60, seen);
      pack.logits = pack.logits.to(type);
      expect_equal(run(pack), truth_of(pack), pack);
    }
  }
}

// A minute of audio and a page of text, with confident and with nearly uniform logits.
TEST(Ctc, StaysAccurateOverLongUtterances) {
  for (const float scale : {0.5f, 3.0f, 12.0f}) {
    SCOPED_TRACE(scale);
    Dice dice(7);
    Pack pack;
    pack.add(3'000, draw_labels(dice, 500, 32, 0));
    pack.add(2'900, draw_labels(dice, 600, 32, 0));
    pack.add(801, LabelList(401, 5));  // one alignment alone
    pack.draw_logits(dice, 32, scale);
    expect_equal(run(pack), truth_of(pack), pack);
  }
}

TEST(Ctc, IsSafeForExtremeLogits) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    Seen seen;
    Pack pack = draw_pack(dice, 40, seen);
    // Whole numbers, whose differences fp32 holds: at 20,000 it resolves a logarithm to 2e-3 only.
    pack.logits = (pack.logits.sign() * 1e4 + (4.0 * pack.logits).round()).contiguous();
    expect_equal(run(pack), truth_of(pack), pack);
  }
}

TEST(Ctc, IsFiniteForTheLargestLogits) {
  Pack pack;
  pack.add(3, {1, 2});
  pack.logits = at::tensor({3e38f, -3e38f, 0.0f, -3e38f, 3e38f, 1.0f, 3e38f, -3e38f, -3e38f});
  pack.logits = pack.logits.view({3, 3});
  const Outcome ours = run(pack);
  EXPECT_TRUE(at::isfinite(ours.loss).all().item<bool>());
  EXPECT_TRUE(at::isfinite(ours.gradient).all().item<bool>());
}

// One frame, no labels, or both: sums that can be computed by hand.
TEST(Ctc, HandlesTheSmallestUtterances) {
  Pack pack;
  pack.add(1, {});
  pack.add(1, {2});
  pack.add(2, {});
  pack.add(2, {2});
  pack.logits = at::zeros({6, 4});  // every path has (1/4)^T
  const Outcome ours = run(pack);
  const double log4 = std::log(4.0);
  const at::Tensor truth =
      at::tensor({log4, log4, 2.0 * log4, 2.0 * log4 - std::log(3.0)}, at::kDouble);
  EXPECT_LE(test::loss_error(ours.loss, truth), test::kernel_tolerance(at::kFloat));
  const at::Tensor all_blank = at::tensor({-0.75, 0.25, 0.25, 0.25}, at::kDouble);
  EXPECT_LE(test::relative_error(ours.gradient[0], all_blank), test::kernel_tolerance(at::kFloat));
}

TEST(Ctc, InfeasibleUtterancesAreZeroAndListed) {
  Pack pack;
  pack.add(2, {1, 2, 3});
  pack.add(3, {1, 1});
  pack.add(2, {1, 1}, 3.0f);
  Dice dice(1);
  pack.draw_logits(dice, 5, 1.0f);
  pack.logits[0][0] = kNan;  // no arithmetic is done on it
  const Outcome ours = run(pack);
  EXPECT_EQ(ours.infeasible, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(ours.loss[0].item<float>(), 0.0f);
  EXPECT_GT(ours.loss[1].item<float>(), 0.0f);
  EXPECT_EQ(ours.loss[2].item<float>(), 0.0f);
  EXPECT_TRUE(at::equal(rows_of(ours.gradient, pack, 0), at::zeros({2, 5})));
  EXPECT_TRUE(at::equal(rows_of(ours.gradient, pack, 2), at::zeros({2, 5})));
}

TEST(Ctc, FeasibilityCountsBlanksBetweenRepeats) {
  EXPECT_TRUE(Ctc::is_feasible(1, LabelList{}));
  EXPECT_TRUE(Ctc::is_feasible(3, LabelList{1, 2, 1}));
  EXPECT_FALSE(Ctc::is_feasible(2, LabelList{1, 2, 1}));
  EXPECT_TRUE(Ctc::is_feasible(5, LabelList{1, 1, 1}));
  EXPECT_FALSE(Ctc::is_feasible(4, LabelList{1, 1, 1}));
}

TEST(Ctc, NonFiniteValuesAffectOnlyTheirUtterance) {
  Pack pack;
  Dice dice(2);
  for (int u = 0; u < 3; ++u) pack.add(9, {1, 3, 3});
  pack.draw_logits(dice, 19, 1.0f);
  const Outcome clean = run(pack);
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    for (const int64_t column : {0, 3, 7, 18}) {  // the blank, a label, neither, the tail
      SCOPED_TRACE(std::to_string(bad) + " in column " + std::to_string(column));
      Pack broken = pack;
      broken.logits = pack.logits.clone();
      broken.logits[13][column] = bad;
      const Outcome ours = run(broken);
      EXPECT_TRUE(std::isnan(ours.loss[1].item<float>()));
      EXPECT_TRUE(at::isnan(rows_of(ours.gradient, pack, 1)).all().item<bool>());
      for (const size_t u : {0u, 2u}) {
        EXPECT_TRUE(at::equal(rows_of(ours.gradient, pack, u), rows_of(clean.gradient, pack, u)));
        EXPECT_EQ(ours.loss[static_cast<int64_t>(u)].item<float>(),
                  clean.loss[static_cast<int64_t>(u)].item<float>());
      }
    }
  }
}

// "The budget changes speed, never the result": an utterance does not depend on the rest of its
// pack.
TEST(Ctc, DoesNotDependOnThePack) {
  Dice dice(3);
  Seen seen;
  for (int round = 0; round < 20; ++round) {
    const Pack together = draw_pack(dice, 60, seen);
    const Outcome all = run(together);
    for (size_t u = 0; u < together.lengths.size(); ++u) {
      Pack alone;
      alone.blank = together.blank;
      alone.add(together.lengths[u], together.labels[u], together.weights[u]);
      alone.logits = rows_of(together.logits, together, u);
      const Outcome one = run(alone);
      EXPECT_TRUE(at::equal(one.gradient, rows_of(all.gradient, together, u)));
      EXPECT_EQ(one.loss.item<float>(), all.loss[static_cast<int64_t>(u)].item<float>());
    }
  }
}

TEST(Ctc, EvaluationGivesTheSameLossesAndKeepsLogits) {
  Dice dice(4);
  Seen seen;
  for (int round = 0; round < 20; ++round) {
    const Pack pack = draw_pack(dice, 60, seen);
    const at::Tensor before = pack.logits.clone();
    const Packing packing(pack.lengths, at::kCPU);
    const Labels labels(pack.labels, at::kCPU);
    const Ctc::Result result =
        Ctc::evaluate(pack.logits, {.packing = packing, .labels = labels, .blank = pack.blank});
    const Outcome trained = run(pack);
    EXPECT_TRUE(at::equal(result.loss, trained.loss));
    EXPECT_EQ(result.infeasible, trained.infeasible);
    EXPECT_TRUE(at::equal(pack.logits, before));
  }
}

TEST(Ctc, RefusesLabelsOutsideTheVocabulary) {
  struct Bad {
    int32_t label;
    std::string found;
  };
  for (const Bad& bad : {Bad{0, "label 0, the blank, in utterance 1"},
                         Bad{32, "label 32 in utterance 1"}, Bad{-1, "label -1 in utterance 1"}}) {
    Pack pack;
    pack.add(5, {1, 31});
    pack.add(5, {1, bad.label});
    pack.logits = at::zeros({10, 32});
    const std::string message = test::message_of<DataError>([&] { run(pack); });
    EXPECT_PRED2(test::contains, message, bad.found);
    EXPECT_PRED2(test::contains, message, "labels from 0 to 31 other than the blank, 0");
  }
}

TEST(Ctc, RefusesMismatchedShapes) {
  Pack pack;
  pack.add(5, {1});
  pack.logits = at::zeros({4, 8});
  EXPECT_THROW(run(pack), InternalError);
  pack.logits = at::zeros({5, 8});
  pack.blank = 8;
  EXPECT_THROW(run(pack), InternalError);
  pack.blank = 0;
  pack.weights = {1.0f, 1.0f};
  EXPECT_THROW(run(pack), InternalError);
  pack.weights = {1.0f};
  pack.labels = {{1}, {1}};
  EXPECT_THROW(run(pack), InternalError);
}

// A step with an utterance that cannot be aligned and one without labels; padded, as PyTorch wants
// it.
class CtcReductions : public ::testing::Test {
 protected:
  void SetUp() override {
    Dice dice(5);
    pack_.add(20, {3, 1, 4, 1, 5});
    pack_.add(2, {2, 7, 1});  // infeasible
    pack_.add(9, {});
    pack_.add(30, {6, 6, 2});
    pack_.draw_logits(dice, 10, 1.0f);
    for (const LabelList& labels : pack_.labels)
      label_lengths_.push_back(static_cast<int64_t>(labels.size()));
  }

  // The loss of the step by our weights, and its gradient.
  Outcome reduced(models::Reduction reduction) {
    pack_.weights = models::utterance_weights(reduction, label_lengths_);
    Outcome outcome = run(pack_);
    outcome.loss = (outcome.loss * at::tensor(pack_.weights)).sum();
    return outcome;
  }

  Outcome by_torch(int64_t torch_reduction, double scale) {
    const at::Tensor logits = pack_.logits.to(at::kDouble).set_requires_grad(true);
    std::vector<at::Tensor> rows;
    LabelList labels;
    for (size_t u = 0; u < pack_.lengths.size(); ++u) {
      const at::Tensor own = rows_of(at::log_softmax(logits, 1), pack_, u);
      rows.push_back(at::constant_pad_nd(own, {0, 0, 0, 30 - pack_.lengths[u]}));
      labels.insert(labels.end(), pack_.labels[u].begin(), pack_.labels[u].end());
    }
    const at::Tensor loss =
        scale * at::ctc_loss(at::stack(rows, 1), at::tensor(labels, at::kLong), pack_.lengths,
                             label_lengths_, 0, torch_reduction, /*zero_infinity=*/true);
    loss.backward();
    return {.loss = loss.detach(), .gradient = logits.grad(), .infeasible = {}};
  }

  void expect_same(const Outcome& ours, const Outcome& torch) {
    EXPECT_LE(test::loss_error(ours.loss, torch.loss), test::kernel_tolerance(at::kFloat));
    EXPECT_LE(test::relative_error(ours.gradient, torch.gradient),
              test::kernel_tolerance(at::kFloat));
  }

  Pack pack_;
  std::vector<int64_t> label_lengths_;
};

TEST_F(CtcReductions, SumMatchesTorch) {
  expect_same(reduced(models::Reduction::kSum), by_torch(at::Reduction::Sum, 1.0));
}

TEST_F(CtcReductions, TokensDividesTheSumByAllLabels) {
  expect_same(reduced(models::Reduction::kTokens), by_torch(at::Reduction::Sum, 1.0 / 11));
}

TEST_F(CtcReductions, UtterancesDividesTheSumByAllUtterances) {
  expect_same(reduced(models::Reduction::kUtterances), by_torch(at::Reduction::Sum, 1.0 / 4));
}

TEST_F(CtcReductions, CtcMeanMatchesTorchMean) {
  expect_same(reduced(models::Reduction::kCtcMean), by_torch(at::Reduction::Mean, 1.0));
}

TEST_F(CtcReductions, StepWithoutLabelsHasFiniteWeights) {
  const std::vector<int64_t> none = {0, 0};
  EXPECT_EQ(models::utterance_weights(models::Reduction::kTokens, none),
            (std::vector<float>{1.0f, 1.0f}));
  EXPECT_EQ(models::utterance_weights(models::Reduction::kCtcMean, none),
            (std::vector<float>{0.5f, 0.5f}));
}

TEST(Labels, AreIndexedByUtterance) {
  const Labels labels({{4, 5}, {}, {6}}, at::kCPU);
  EXPECT_EQ(labels.num_utterances(), 3);
  EXPECT_EQ(labels.num_labels(), 3);
  EXPECT_EQ(labels.lengths(), (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(labels.starts(), (std::vector<int64_t>{0, 2, 2, 3}));
  EXPECT_EQ(labels.of(0)[1], 5);
  EXPECT_TRUE(labels.of(1).empty());
  EXPECT_TRUE(at::equal(labels.device_values(), at::tensor({4, 5, 6}, at::kInt)));
  EXPECT_THROW(Labels({}, at::kCPU), InternalError);
}

TEST(CtcGreedy, MergesRepeatsAndDropsBlanks) {
  const std::vector<int64_t> best = {0, 2, 2, 0, 2, 1, 1, /*second utterance*/ 1, 0};
  at::Tensor logits = at::zeros({9, 3});
  for (int64_t row = 0; row < 9; ++row) logits[row][best[static_cast<size_t>(row)]] = 1.0;
  using Decoded = std::vector<CtcGreedy::Label>;
  const auto decoded = CtcGreedy::decode(logits, Packing({7, 2}, at::kCPU));
  ASSERT_EQ(decoded.size(), 2u);
  EXPECT_EQ(decoded[0], (Decoded{{2, 1}, {2, 4}, {1, 5}}));
  EXPECT_EQ(decoded[1], (Decoded{{1, 0}}));
}

TEST(CtcGreedy, FirstOfEqualLogitsWins) {
  const Packing packing({2}, at::kCPU);
  at::Tensor logits = at::zeros({2, 20});
  logits[0][17] = 1.0;
  logits[0][19] = 1.0;
  logits[1].fill_(kNan);
  const auto decoded = CtcGreedy::decode(logits, packing);
  ASSERT_EQ(decoded[0].size(), 1u);
  EXPECT_EQ(decoded[0][0], (CtcGreedy::Label{.label = 17, .frame = 0}));
}

}  // namespace ctc_test
}  // namespace sotto::kernels
