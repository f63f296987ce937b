// Cross entropy through a projection against ATen's in double precision, and what it promises of
// chunks, of rows without a target, and of logits that are not finite.
#include "sotto/kernels/loss/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "sotto/core/error.h"
#include "support/kernel_case_tools.h"
#include "support/thrown.h"
#include "support/tolerance.h"

namespace sotto::kernels {
namespace cross_entropy_test {

using test::random_values;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kNone = CrossEntropy::kNoTarget;

struct Problem {
  std::vector<int64_t> lengths;
  std::vector<std::vector<int32_t>> targets;
  std::vector<float> weights;
  at::Tensor x;       // [N, D]
  at::Tensor weight;  // [V, D]

  at::Tensor rows_of(const at::Tensor& rows, size_t utterance) const {
    return rows.split_with_sizes(lengths)[utterance];
  }
};

// Logits of about 2, every target another.
Problem draw_problem(const std::vector<int64_t>& lengths, int64_t width, int64_t vocabulary) {
  Problem problem{.lengths = lengths, .targets = {}, .weights = {}, .x = {}, .weight = {}};
  int64_t rows = 0;
  for (const int64_t length : lengths) {
    problem.weights.push_back(0.25f + static_cast<float>(problem.weights.size()));
    problem.targets.emplace_back();
    for (int64_t i = 0; i < length; ++i, ++rows)
      problem.targets.back().push_back(static_cast<int32_t>(rows * 7'919 % vocabulary));
  }
  problem.x = random_values({rows, width}, 1).to(at::kFloat);
  problem.weight = (random_values({vocabulary, width}, 2) * 2.0 / std::sqrt(width)).to(at::kFloat);
  return problem;
}

// The logits are x itself, to the bit, and dx is their gradient.
Problem draw_identity(const std::vector<int64_t>& lengths, int64_t vocabulary) {
  Problem problem = draw_problem(lengths, vocabulary, vocabulary);
  problem.weight = at::eye(vocabulary);
  return problem;
}

struct Outcome {
  at::Tensor loss;
  at::Tensor dx;
  at::Tensor grad_weight;
};

class Bound {
 public:
  explicit Bound(const Problem& problem)
      : problem_(problem),
        packing_(problem.lengths, at::kCPU),
        targets_(problem.targets, at::kCPU) {}

  Outcome forward(const CrossEntropy::Options& options) const {
    Outcome outcome{.loss = {}, .dx = {}, .grad_weight = at::zeros(problem_.weight.sizes())};
    const CrossEntropy::Result result =
        CrossEntropy::forward(inputs(), problem_.weights, &outcome.grad_weight, options);
    outcome.loss = result.loss;
    outcome.dx = result.dx;
    return outcome;
  }
  CrossEntropy::Result forward_frozen(const CrossEntropy::Options& options) const {
    return CrossEntropy::forward(inputs(), problem_.weights, nullptr, options);
  }
  at::Tensor evaluate(const CrossEntropy::Options& options) const {
    return CrossEntropy::evaluate(inputs(), options);
  }

 private:
  CrossEntropy::Inputs inputs() const {
    return {.x = problem_.x, .weight = problem_.weight, .packing = packing_, .targets = targets_};
  }

  const Problem& problem_;
  Packing packing_;
  Labels targets_;
};

Outcome run(const Problem& problem, const CrossEntropy::Options& options) {
  return Bound(problem).forward(options);
}

Outcome truth_of(const Problem& problem, double smoothing) {
  const at::Tensor x = problem.x.to(at::kDouble).set_requires_grad(true);
  const at::Tensor weight = problem.weight.to(at::kDouble).set_requires_grad(true);
  std::vector<int64_t> targets;
  for (const std::vector<int32_t>& of_utterance : problem.targets)
    targets.insert(targets.end(), of_utterance.begin(), of_utterance.end());
  const at::Tensor of_rows =
      at::cross_entropy_loss(at::matmul(x, weight.t()), at::tensor(targets, at::kLong), {},
                             at::Reduction::None, kNone, smoothing);
  std::vector<at::Tensor> losses;
  for (const at::Tensor& rows : of_rows.split_with_sizes(problem.lengths))
    losses.push_back(rows.sum());
  const at::Tensor loss = at::stack(losses);
  loss.backward(at::tensor(problem.weights, at::kDouble));
  return {.loss = loss.detach(), .dx = x.grad(), .grad_weight = weight.grad()};
}

void expect_near(const Outcome& ours, const Outcome& truth, at::ScalarType type) {
  const double tolerance = test::kernel_tolerance(type);
  EXPECT_LE(test::relative_error(ours.loss, truth.loss), tolerance);
  EXPECT_LE(test::relative_error(ours.dx, truth.dx), tolerance);
  EXPECT_LE(test::relative_error(ours.grad_weight, truth.grad_weight), tolerance);
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(at::equal(a.loss, b.loss));
  EXPECT_TRUE(at::equal(a.dx, b.dx));
}

constexpr CrossEntropy::Options with_rows(int64_t rows, int64_t vocabulary) {
  return {.chunk_bytes = rows * vocabulary * int64_t{sizeof(float)}};
}
constexpr CrossEntropy::Options kWhole{.variant = CrossEntropy::Variant::kWhole};

// One slice of the vocabulary and several, full and partial; sizes below one vector of sixteen and
// with remainders.
TEST(CrossEntropy, AgreesWithDoublePrecisionForAnyVocabulary) {
  for (const int64_t vocabulary : {2, 15, 16, 33, 1'000, 1'024, 1'025, 2'500}) {
    for (const double smoothing : {0.0, 0.1, 1.0}) {
      SCOPED_TRACE(std::to_string(vocabulary) + " entries, smoothing " + std::to_string(smoothing));
      const Problem problem = draw_problem({20, 1, 49}, 24, vocabulary);
      expect_near(run(problem, {.smoothing = smoothing}), truth_of(problem, smoothing), at::kFloat);
    }
  }
}

TEST(CrossEntropy, AgreesWithDoublePrecisionIn16BitTypes) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const int64_t vocabulary : {33, 2'500}) {
      SCOPED_TRACE(std::to_string(vocabulary) + " entries in " + c10::toString(type));
      Problem problem = draw_problem({20, 1, 49}, 24, vocabulary);
      problem.targets[0][3] = kNone;
      problem.x = problem.x.to(type);
      problem.weight = problem.weight.to(type);
      expect_near(run(problem, {.smoothing = 0.1}), truth_of(problem, 0.1), type);
    }
  }
}

TEST(CrossEntropy, IsZeroForOneEntry) {
  const Problem problem = draw_problem({3, 2}, 8, 1);
  for (const double smoothing : {0.0, 0.1}) {
    const Outcome ours = run(problem, {.smoothing = smoothing});
    for (const at::Tensor& zero : {ours.loss, ours.dx, ours.grad_weight})
      EXPECT_LE(zero.abs().max().item<double>(), test::kernel_tolerance(at::kFloat));
  }
}

TEST(CrossEntropy, ChunksOfAnySizeGiveTheSameNumbers) {
  constexpr int64_t kVocabulary = 2'500;
  Problem problem = draw_problem({100, 7, 193}, 40, kVocabulary);
  for (const bool some_without_target : {false, true}) {
    if (some_without_target) {
      for (size_t i = 0; i < 100; i += 3) problem.targets[0][i] = kNone;
    }
    const Outcome whole = run(problem, kWhole);
    expect_near(whole, truth_of(problem, 0.0), at::kFloat);
    for (const int64_t rows : {0, 64, 100, 128, 192, 256, 300, 1'000}) {
      SCOPED_TRACE(std::to_string(rows) + " rows a chunk");
      const Outcome ours = run(problem, with_rows(rows, kVocabulary));
      EXPECT_LE(test::relative_error(ours.loss, whole.loss), test::kChunkTolerance);
      EXPECT_LE(test::relative_error(ours.dx, whole.dx), test::kChunkTolerance);
      EXPECT_LE(test::relative_error(ours.grad_weight, whole.grad_weight),
                test::kChunkSumTolerance);
    }
  }
}

// With exact products, the result does not depend on how the work was split.
TEST(CrossEntropy, BitsDependNeitherOnCoresNorOnChunks) {
  constexpr int64_t kVocabulary = 1'100;
  for (const bool some_without_target : {false, true}) {
    Problem problem = draw_identity({100, 7, 93}, kVocabulary);
    if (some_without_target) problem.targets[2][5] = kNone;
    const int before = at::get_num_threads();
    at::set_num_threads(1);
    const Outcome on_one = run(problem, with_rows(64, kVocabulary));
    at::set_num_threads(3);
    for (const int64_t rows : {64, 128, 300}) {
      SCOPED_TRACE(std::to_string(rows) + " rows a chunk");
      expect_same_bits(run(problem, with_rows(rows, kVocabulary)), on_one);
    }
    at::set_num_threads(before);
  }
}

// The result does not depend on the other utterances of the pack.
TEST(CrossEntropy, DoesNotDependOnThePack) {
  const Problem together = draw_identity({40, 1, 93}, 50);
  const Outcome all = run(together, {.smoothing = 0.1});
  for (size_t u = 0; u < together.lengths.size(); ++u) {
    const Problem alone{.lengths = {together.lengths[u]},
                        .targets = {together.targets[u]},
                        .weights = {together.weights[u]},
                        .x = together.rows_of(together.x, u),
                        .weight = together.weight};
    const Outcome one = run(alone, {.smoothing = 0.1});
    EXPECT_TRUE(at::equal(one.dx, together.rows_of(all.dx, u)));
    EXPECT_EQ(one.loss.item<float>(), all.loss[static_cast<int64_t>(u)].item<float>());
  }
}

TEST(CrossEntropy, RowsWithoutTargetAreIgnored) {
  for (const double smoothing : {0.0, 0.1}) {
    Problem problem = draw_problem({70, 5, 80, 6}, 24, 33);
    for (size_t i = 0; i < 70; i += 4) problem.targets[0][i] = kNone;
    problem.targets[1].assign(5, kNone);
    problem.targets[2][79] = kNone;
    const Outcome truth = truth_of(problem, smoothing);
    // Not even read: what lies there is of no account.
    for (int64_t i = 0; i < 70; i += 4) problem.x[i].fill_(kNan);
    const Outcome ours = run(problem, {.smoothing = smoothing, .chunk_bytes = 0});
    expect_near(ours, truth, at::kFloat);
    EXPECT_EQ(ours.loss[1].item<float>(), 0.0f);
    EXPECT_EQ(at::count_nonzero(problem.rows_of(ours.dx, 1)).item<int64_t>(), 0);
    EXPECT_EQ(at::count_nonzero(ours.dx[4]).item<int64_t>(), 0);
    EXPECT_GT(at::count_nonzero(ours.dx[5]).item<int64_t>(), 0);
  }
}

TEST(CrossEntropy, IsZeroWithoutTargets) {
  Problem problem = draw_problem({3, 2}, 8, 33);
  for (std::vector<int32_t>& targets : problem.targets) targets.assign(targets.size(), kNone);
  const Outcome ours = run(problem, {});
  EXPECT_TRUE(at::equal(ours.loss, at::zeros({2})));
  EXPECT_TRUE(at::equal(ours.dx, at::zeros({5, 8})));
  EXPECT_TRUE(at::equal(ours.grad_weight, at::zeros({33, 8})));
  EXPECT_TRUE(at::equal(Bound(problem).evaluate({}), at::zeros({2})));
}

TEST(CrossEntropy, IsSafeForExtremeLogits) {
  Problem problem = draw_identity({20, 13}, 50);
  // Whole numbers, whose differences fp32 holds.
  problem.x = (problem.x.sign() * 1e4 + (4.0 * problem.x).round()).contiguous();
  for (const double smoothing : {0.0, 0.1}) {
    const Outcome ours = run(problem, {.smoothing = smoothing});
    expect_near(ours, truth_of(problem, smoothing), at::kFloat);
    EXPECT_TRUE(at::isfinite(ours.loss).all().item<bool>());
  }
}

TEST(CrossEntropy, IsFiniteIfTheTargetHasTheLargestPossibleLogit) {
  Problem problem = draw_identity({1}, 20);
  problem.x = at::full({1, 20}, -3e38);
  problem.x[0][7] = 3e38;
  problem.targets = {{7}};
  const Outcome ours = run(problem, {});
  EXPECT_EQ(ours.loss.item<float>(), 0.0f);
  EXPECT_TRUE(at::isfinite(ours.dx).all().item<bool>());
}

TEST(CrossEntropy, NonFiniteLogitsAffectOnlyTheirUtterance) {
  Problem problem = draw_identity({9, 9, 9}, 1'030);
  problem.weight *= 2.0;  // so that a finite x can have an infinite logit
  const Outcome clean = run(problem, {});
  for (const float bad : {kNan, kInfinity, -kInfinity, 3e38f, -3e38f}) {
    for (const int64_t column : {0, 500, 1'029}) {
      SCOPED_TRACE(std::to_string(bad) + " in column " + std::to_string(column));
      Problem broken = problem;
      broken.x = problem.x.clone();
      broken.x[13][column] = bad;
      const Outcome ours = run(broken, {});
      EXPECT_TRUE(std::isnan(ours.loss[1].item<float>()));
      EXPECT_TRUE(at::isnan(ours.dx[13]).all().item<bool>());
      EXPECT_TRUE(at::isnan(ours.grad_weight).any().item<bool>());
      for (const size_t u : {0u, 2u}) {
        EXPECT_TRUE(at::equal(problem.rows_of(ours.dx, u), problem.rows_of(clean.dx, u)));
        EXPECT_EQ(ours.loss[static_cast<int64_t>(u)].item<float>(),
                  clean.loss[static_cast<int64_t>(u)].item<float>());
      }
    }
  }
}

TEST(CrossEntropy, FrozenProjectionChangesNothingElse) {
  Problem problem = draw_problem({40, 60}, 24, 1'100);
  problem.targets[0][2] = kNone;
  const Outcome trained = run(problem, {.smoothing = 0.1});
  const CrossEntropy::Result frozen = Bound(problem).forward_frozen({.smoothing = 0.1});
  EXPECT_TRUE(at::equal(frozen.loss, trained.loss));
  EXPECT_TRUE(at::equal(frozen.dx, trained.dx));
}

TEST(CrossEntropy, EvaluationGivesTheSameLossesAndKeepsInputs) {
  for (const double smoothing : {0.0, 0.1}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      Problem problem = draw_problem({40, 160}, 24, 1'100);
      problem.targets[1][2] = kNone;
      problem.x = problem.x.to(type);
      problem.weight = problem.weight.to(type);
      const at::Tensor x = problem.x.clone(), weight = problem.weight.clone();
      const CrossEntropy::Options options{.smoothing = smoothing, .chunk_bytes = 0};
      EXPECT_TRUE(at::equal(Bound(problem).evaluate(options), run(problem, options).loss));
      EXPECT_TRUE(at::equal(problem.x, x));
      EXPECT_TRUE(at::equal(problem.weight, weight));
    }
  }
}

TEST(CrossEntropy, RefusesTargetsOutsideTheVocabulary) {
  for (const int32_t bad : {-1, -99, -101, 33, 1 << 30}) {
    Problem problem = draw_problem({5, 4}, 8, 33);
    problem.targets[1][3] = bad;
    for (const bool evaluated : {false, true}) {
      const std::string message = test::message_of<DataError>([&] {
        const Bound bound(problem);
        evaluated ? bound.evaluate({}) : bound.forward({}).loss;
      });
      EXPECT_PRED2(test::contains, message,
                   "target " + std::to_string(bad) + " in utterance 1 of the pack");
      EXPECT_PRED2(test::contains, message, "targets from 0 to 32, or -100 for a row");
    }
  }
}

TEST(CrossEntropy, RefusesMismatchedShapes) {
  const Problem good = draw_problem({5, 4}, 8, 33);
  const auto expect_refused = [&](const std::function<void(Problem&)>& change) {
    Problem problem = good;
    change(problem);
    EXPECT_THROW(run(problem, {}), InternalError);
  };
  expect_refused([](Problem& p) { p.x = at::zeros({8, 8}); });
  expect_refused([](Problem& p) { p.weight = at::zeros({33, 9}); });
  expect_refused([](Problem& p) { p.weight = at::zeros({0, 8}); });
  expect_refused([](Problem& p) { p.weight = p.weight.to(at::kBFloat16); });
  expect_refused([](Problem& p) { p.weights.push_back(1.0f); });
  expect_refused([](Problem& p) { p.targets[0].swap(p.targets[1]); });
  EXPECT_THROW(run(good, {.smoothing = -0.1}), InternalError);
  EXPECT_THROW(run(good, {.smoothing = 1.1}), InternalError);
}

}  // namespace cross_entropy_test
}  // namespace sotto::kernels
