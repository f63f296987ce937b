// CTC on a GPU against the CPU: losses, gradients, and what must not depend on the pack.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "sotto/kernels/loss/ctc.h"
#include "sotto/kernels/loss/ctc_greedy.h"
#include "support/ctc_pack.h"
#include "support/gpu.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace {

using kernels::Ctc;
using kernels::CtcGreedy;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class CudaCtc : public ::testing::Test {
 protected:
  void SetUp() override { SOTTO_SKIP_WITHOUT_GPU(); }
};

struct Outcome {
  at::Tensor loss;
  at::Tensor evaluated;
  at::Tensor gradient;
  std::vector<int64_t> infeasible;
};

Outcome run(const Pack& pack, const at::Device& device) {
  const kernels::Packing packing(pack.lengths, device);
  const kernels::Labels labels(pack.labels, device);
  const Ctc::Targets targets{.packing = packing, .labels = labels, .blank = pack.blank};
  at::Tensor gradient = pack.logits.to(device, pack.logits.scalar_type(), /*non_blocking=*/false,
                                       /*copy=*/true);
  const Ctc::Result evaluated = Ctc::evaluate(gradient, targets);
  const Ctc::Result result = Ctc::forward(gradient, targets, pack.weights);
  return {.loss = result.loss.cpu(),
          .evaluated = evaluated.loss.cpu(),
          .gradient = gradient.cpu(),
          .infeasible = result.infeasible};
}

// NaN at the same places, and 0 put there.
at::Tensor without_nan(const at::Tensor& values, const at::Tensor& like) {
  EXPECT_TRUE(at::equal(at::isnan(values), at::isnan(like)));
  return at::nan_to_num(values.to(at::kDouble), 0.0);
}

void expect_equal(const Outcome& ours, const Outcome& truth, const Pack& pack) {
  EXPECT_EQ(ours.infeasible, truth.infeasible);
  EXPECT_TRUE(at::equal(at::nan_to_num(ours.loss), at::nan_to_num(ours.evaluated)));
  EXPECT_LE(loss_error(without_nan(ours.loss, truth.loss), without_nan(truth.loss, truth.loss)),
            cuda_tolerance(at::kFloat));
  const at::Tensor difference = over_weights(without_nan(ours.gradient, truth.gradient), pack) -
                                over_weights(without_nan(truth.gradient, truth.gradient), pack);
  EXPECT_LE(difference.abs().max().item<double>(), cuda_tolerance(pack.logits.scalar_type()));
}

struct Seen {
  int64_t above_256_labels = 0;
  int64_t without_labels = 0;
  int64_t just_feasible = 0;
  int64_t infeasible = 0;
  int64_t not_finite = 0;
};

void add_utterance(Pack& pack, Dice& dice, int64_t vocabulary, Seen& seen) {
  const int64_t kind = dice.between(0, 5);
  const int64_t count = kind == 0 ? 0 : kind == 1 ? dice.between(257, 600) : dice.between(1, 40);
  const LabelList labels = draw_labels(dice, count, vocabulary, pack.blank);
  int64_t frames = 1;
  while (!Ctc::is_feasible(frames, labels)) ++frames;
  if (kind == 2) {
    frames = std::max<int64_t>(1, frames - 1);
  } else if (kind > 3) {
    frames += dice.between(1, 100);
  }
  if (!Ctc::is_feasible(frames, labels)) {
    ++seen.infeasible;
  } else if (kind == 3) {
    ++seen.just_feasible;
  }
  if (labels.empty()) ++seen.without_labels;
  if (labels.size() > 256) ++seen.above_256_labels;
  pack.add(frames, labels, 0.1f + 2.0f * dice.uniform());
}

Pack draw_pack(Dice& dice, int64_t vocabulary, Seen& seen) {
  Pack pack;
  pack.blank = dice.between(0, vocabulary - 1);
  for (int64_t u = dice.between(1, 6); u > 0; --u) add_utterance(pack, dice, vocabulary, seen);
  pack.draw_logits(dice, vocabulary, 4.0f * dice.uniform());
  if (dice.chance(0.3)) {
    const float bad = std::array{kNan, kInfinity, -kInfinity}[dice.between(0, 2)];
    pack.logits[dice.between(0, pack.logits.size(0) - 1)][dice.between(0, vocabulary - 1)] = bad;
    ++seen.not_finite;
  }
  return pack;
}

TEST_F(CudaCtc, AgreesWithTheCpuOnRandomPacks) {
  Seen seen;
  for (uint64_t seed = 0; seed < 63; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    Pack pack = draw_pack(dice, std::array{2, 32, 33, 5000}[seed % 4], seen);
    pack.logits = pack.logits.to(std::array{at::kFloat, at::kBFloat16, at::kHalf}[seed % 3]);
    expect_equal(run(pack, at::kCUDA), run(pack, at::kCPU), pack);
  }
  EXPECT_GT(seen.above_256_labels, 10);
  EXPECT_GT(seen.without_labels, 10);
  EXPECT_GT(seen.just_feasible, 10);
  EXPECT_GT(seen.infeasible, 10);
  EXPECT_GT(seen.not_finite, 10);
}

// More labels than a block has threads, and more than its shared memory has room for.
TEST_F(CudaCtc, AgreesWithTheCpuOnLongUtterances) {
  Dice dice(7);
  Pack pack;
  pack.add(3'000, draw_labels(dice, 500, 32, 0));
  pack.add(2'900, draw_labels(dice, 700, 32, 0));
  pack.add(2'500, draw_labels(dice, 1'200, 32, 0));
  pack.add(801, LabelList(401, 5));  // one alignment alone
  pack.draw_logits(dice, 32, 3.0f);
  expect_equal(run(pack, at::kCUDA), run(pack, at::kCPU), pack);
}

TEST_F(CudaCtc, AgreesWithTheCpuOnExtremeLogits) {
  Seen seen;
  for (uint64_t seed = 100; seed < 110; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    Pack pack = draw_pack(dice, 20, seen);
    // Whole numbers, whose differences fp32 holds.
    pack.logits = (pack.logits.sign() * 1e4 + (4.0 * pack.logits).round()).contiguous();
    expect_equal(run(pack, at::kCUDA), run(pack, at::kCPU), pack);
  }
}

// "The budget changes speed, never the result": an utterance does not see what it is packed with.
TEST_F(CudaCtc, GivesTheSameBitsInAnyPackAndEveryTime) {
  Seen seen;
  for (uint64_t seed = 200; seed < 210; ++seed) {
    Dice dice(seed);
    const Pack together = draw_pack(dice, seed % 2 == 0 ? 37 : 64, seen);
    const Outcome all = run(together, at::kCUDA);
    const auto same = [](const at::Tensor& a, const at::Tensor& b) {
      return at::equal(at::nan_to_num(a), at::nan_to_num(b)) &&
             at::equal(at::isnan(a), at::isnan(b));
    };
    EXPECT_TRUE(same(run(together, at::kCUDA).gradient, all.gradient));
    for (size_t u = 0; u < together.lengths.size(); ++u) {
      Pack alone;
      alone.blank = together.blank;
      alone.add(together.lengths[u], together.labels[u], together.weights[u]);
      alone.logits = rows_of(together.logits, together, u);
      const Outcome one = run(alone, at::kCUDA);
      EXPECT_TRUE(same(one.gradient, rows_of(all.gradient, together, u)));
      EXPECT_TRUE(same(one.loss, all.loss.narrow(0, static_cast<int64_t>(u), 1)));
    }
  }
}

// Equal logits, rows of NaN, rows with some, infinities; rows of one warp and of more than a block.
TEST_F(CudaCtc, GreedyDecodingMatchesTheCpu) {
  for (const int64_t vocabulary : {2, 31, 32, 1'000, 5'001, 100'000}) {
    Dice dice(static_cast<uint64_t>(vocabulary));
    Pack pack;
    pack.add(40, {});
    pack.add(23, {});
    pack.draw_logits(dice, vocabulary, 1.0f);
    pack.logits = pack.logits.round();
    pack.logits[3].fill_(kNan);
    pack.logits[4].fill_(-kInfinity);
    pack.logits[5][vocabulary - 1] = kInfinity;
    pack.logits[6].narrow(0, 0, vocabulary / 2).fill_(kNan);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor logits = pack.logits.to(type);
      EXPECT_EQ(CtcGreedy::decode(logits.cuda(), kernels::Packing(pack.lengths, at::kCUDA)),
                CtcGreedy::decode(logits, kernels::Packing(pack.lengths, at::kCPU)))
          << vocabulary << " entries in " << type;
    }
  }
}

}  // namespace
}  // namespace sotto::test
