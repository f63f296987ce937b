// The transducer loss against double precision, and what it promises of chunks, of packs, of long
// and short lattices, and of logits that are not finite.
#include "sotto/kernels/loss/transducer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sotto/core/error.h"
#include "support/thrown.h"
#include "support/tolerance.h"
#include "support/transducer_reference.h"

namespace sotto::test {
namespace transducer_test {

using kernels::Transducer;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kAllNodes = 1'000'000;

// Lattices with one frame, without labels, with more labels than frames; sizes on either side of a
// chunk of 64 nodes.
TransducerProblem draw_mixed(TransducerPack pack) {
  pack.frames = {9, 1, 20, 1, 3, 16, 40};
  return draw_transducer(std::move(pack), {4, 0, 0, 3, 7, 3, 12}, {.width = 24, .entries = 30});
}

TransducerProblem draw_rnnt() {
  return draw_mixed({});
}

TransducerProblem draw_tdt() {
  return draw_mixed({.without_durations = {0, 0, 1, 0, 0, 1, 0},
                     .durations = {0, 1, 2, 3, 4},
                     .blank = 29,
                     .sigma = 0.02,
                     .dropout = {.key = {.seed = 3, .purpose = Purpose::kDropout, .step = 9},
                                 .probability = 0.2}});
}

TransducerInputs in_double(const TransducerInputs& in) {
  return {.encoder = in.encoder.to(at::kDouble),
          .prediction = in.prediction.to(at::kDouble),
          .weight = in.weight.to(at::kDouble),
          .bias = in.bias.to(at::kDouble)};
}

TransducerResults truth_of(const TransducerProblem& problem) {
  return transducer_reference(problem.pack, in_double(problem.inputs));
}

void expect_near(const TransducerResults& ours, const TransducerResults& truth, double tolerance) {
  EXPECT_LE(loss_error(ours.loss, truth.loss), tolerance);
  EXPECT_LE(relative_error(ours.d_encoder, truth.d_encoder), tolerance);
  EXPECT_LE(relative_error(ours.d_prediction, truth.d_prediction), tolerance);
  EXPECT_LE(relative_error(ours.grad_weight, truth.grad_weight), tolerance);
  EXPECT_LE(relative_error(ours.grad_bias, truth.grad_bias), tolerance);
  EXPECT_EQ(ours.infeasible, truth.infeasible);
}

TEST(Transducer, AgreesWithDoublePrecision) {
  for (const TransducerProblem& problem : {draw_rnnt(), draw_tdt()}) {
    expect_near(run_transducer(problem.pack, problem.inputs, kAllNodes), truth_of(problem),
                kernel_tolerance(at::kFloat));
  }
}

TEST(Transducer, ChunksOfAnySizeGiveTheSameNumbers) {
  for (const TransducerProblem& problem : {draw_rnnt(), draw_tdt()}) {
    const TransducerResults whole = run_transducer(problem.pack, problem.inputs, kAllNodes);
    for (const int64_t nodes : {0, 64, 128, 192, 320, 640, 704}) {
      SCOPED_TRACE(std::to_string(nodes) + " nodes a chunk");
      const TransducerResults ours = run_transducer(problem.pack, problem.inputs, nodes);
      expect_near(ours, whole, kChunkSumTolerance);
      EXPECT_TRUE(at::equal(ours.loss, evaluate_transducer(problem.pack, problem.inputs, nodes)));
    }
  }
}

// The losses and gradients of an utterance do not depend on the others: neither on their dropout,
// nor on where a chunk begins.
TEST(Transducer, DoesNotDependOnThePack) {
  for (TransducerProblem problem : {draw_rnnt(), draw_tdt()}) {
    for (uint64_t u = 0; u < problem.pack.frames.size(); ++u)
      problem.pack.keys.push_back({.utterance = 100 + 7 * u});
    const TransducerResults all = run_transducer(problem.pack, problem.inputs, 64);
    const auto part = [&](const at::Tensor& rows, const std::vector<int64_t>& lengths, size_t u) {
      return rows.split_with_sizes(lengths)[u];
    };
    at::Tensor grad_weight = at::zeros_like(all.grad_weight);
    for (size_t u = 0; u < problem.pack.frames.size(); ++u) {
      SCOPED_TRACE("utterance " + std::to_string(u));
      TransducerPack pack = problem.pack;
      pack.frames = {pack.frames[u]};
      pack.labels = {pack.labels[u]};
      pack.weights = {pack.weights[u]};
      pack.keys = {pack.keys[u]};
      if (!pack.without_durations.empty()) pack.without_durations = {pack.without_durations[u]};
      TransducerInputs inputs = problem.inputs;
      inputs.encoder = part(inputs.encoder, problem.pack.frames, u);
      inputs.prediction = part(inputs.prediction, problem.pack.predictions(), u);
      const TransducerResults one = run_transducer(pack, inputs, kAllNodes);
      EXPECT_LE(loss_error(one.loss, all.loss.narrow(0, static_cast<int64_t>(u), 1)),
                kChunkTolerance);
      EXPECT_LE(relative_error(part(all.d_encoder, problem.pack.frames, u), one.d_encoder),
                kChunkSumTolerance);
      EXPECT_LE(
          relative_error(part(all.d_prediction, problem.pack.predictions(), u), one.d_prediction),
          kChunkSumTolerance);
      grad_weight += one.grad_weight;
    }
    EXPECT_LE(relative_error(all.grad_weight, grad_weight), kChunkSumTolerance);
  }
}

// As logarithms in fp32, sums of thousands would be off by 1e-4.
TEST(Transducer, IsAccurateForLongUtterances) {
  for (const std::vector<int64_t>& durations :
       {std::vector<int64_t>{}, std::vector<int64_t>{0, 1, 2, 3, 4}}) {
    const TransducerProblem problem = draw_transducer({.frames = {600}, .durations = durations},
                                                      {60}, {.width = 8, .entries = 40});
    expect_near(run_transducer(problem.pack, problem.inputs, 4'096), truth_of(problem),
                kLongLatticeTolerance);
  }
}

// Without 0 or 1 among the durations, not every lattice has an alignment.
TEST(Transducer, HasNoLossWhereNoAlignmentFits) {
  TransducerPack pack{.frames = {5, 5, 3, 4, 1, 6}, .durations = {2, 3}};
  const TransducerProblem problem =
      draw_transducer(std::move(pack), {1, 2, 0, 1, 0, 0}, {.width = 6, .entries = 5});
  const TransducerResults truth = truth_of(problem);
  EXPECT_EQ(truth.infeasible, (std::vector<int64_t>{1, 4}));
  for (const int64_t nodes : {int64_t{0}, kAllNodes}) {
    const TransducerResults ours = run_transducer(problem.pack, problem.inputs, nodes);
    expect_near(ours, truth, kernel_tolerance(at::kFloat));
    EXPECT_EQ(ours.loss[1].item<float>(), 0.0f);
    EXPECT_EQ(ours.d_encoder.narrow(0, 5, 5).abs().max().item<float>(), 0.0f);
  }
}

TEST(Transducer, KnowsWhatIsFeasible) {
  const auto is_feasible = [](int64_t frames, int64_t labels, std::vector<int64_t> durations) {
    return Transducer::is_feasible(frames, labels, durations);
  };
  EXPECT_TRUE(is_feasible(1, 1'000, {}));
  EXPECT_TRUE(is_feasible(1, 1'000, {0, 1, 2, 3, 4}));
  EXPECT_TRUE(is_feasible(4, 0, {0, 2}));
  EXPECT_FALSE(is_feasible(5, 3, {0, 2}));
  EXPECT_TRUE(is_feasible(4, 3, {1, 2}));
  EXPECT_FALSE(is_feasible(4, 4, {1, 2})) << "the last step is a blank";
  EXPECT_FALSE(is_feasible(4, 0, {0})) << "a blank needs a frame";
  EXPECT_FALSE(is_feasible(3, 0, {4}));
}

// A pack in which nothing can be aligned has no nodes.
TEST(Transducer, TakesAPackWithoutAnyAlignment) {
  const TransducerProblem problem =
      draw_transducer({.frames = {1, 3}, .durations = {2}}, {0, 1}, {.width = 4, .entries = 3});
  const TransducerResults ours = run_transducer(problem.pack, problem.inputs, 64);
  EXPECT_EQ(ours.infeasible, (std::vector<int64_t>{0, 1}));
  for (const at::Tensor& zero : {ours.loss, ours.d_encoder, ours.d_prediction, ours.grad_bias})
    EXPECT_EQ(zero.abs().max().item<float>(), 0.0f);
}

TEST(Transducer, LossIsNanForLogitsThatAreNotFinite) {
  for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    for (TransducerProblem problem : {draw_rnnt(), draw_tdt()}) {
      problem.pack.dropout = {};
      problem.inputs.encoder = problem.inputs.encoder.clone();
      problem.inputs.encoder[12][3] = bad;  // of utterance 2
      const TransducerResults ours = run_transducer(problem.pack, problem.inputs, 64);
      for (int64_t u = 0; u < problem.pack.num_utterances(); ++u)
        EXPECT_EQ(std::isnan(ours.loss[u].item<float>()), u == 2) << "utterance " << u;
      EXPECT_TRUE(at::isnan(ours.d_encoder.narrow(0, 10, 20)).any().item<bool>());
      EXPECT_FALSE(at::isnan(ours.d_encoder.narrow(0, 0, 10)).any().item<bool>());
      EXPECT_FALSE(at::isnan(ours.d_encoder.narrow(0, 30, 60)).any().item<bool>());
    }
  }
}

TEST(Transducer, RefusesLabelsThatAreNotEntries) {
  for (const int32_t label : {-1, 30, 29}) {
    TransducerProblem problem = draw_tdt();
    problem.pack.labels[3][1] = label;
    const std::string message =
        message_of<DataError>([&] { run_transducer(problem.pack, problem.inputs, kAllNodes); });
    EXPECT_PRED2(contains, message, "label " + std::to_string(label));
    EXPECT_PRED2(contains, message, "utterance 3");
  }
}

// Frozen parameters of the output layer have no gradient; the others stay the same.
TEST(Transducer, NeedsNoGradientsOfTheOutputLayer) {
  const TransducerProblem problem = draw_rnnt();
  const TransducerResults all = run_transducer(problem.pack, problem.inputs, 64);
  const kernels::Packing frames(problem.pack.frames, at::kCPU);
  const kernels::Packing predictions(problem.pack.predictions(), at::kCPU);
  const kernels::Labels labels(problem.pack.labels, at::kCPU);
  const TransducerInputs& in = problem.inputs;
  const Transducer::Result frozen = Transducer::forward({.encoder = in.encoder,
                                                         .prediction = in.prediction,
                                                         .weight = in.weight,
                                                         .bias = in.bias,
                                                         .frames = frames,
                                                         .predictions = predictions,
                                                         .labels = labels},
                                                        problem.pack.weights, {}, {});
  EXPECT_LE(relative_error(frozen.d_encoder, all.d_encoder), kChunkSumTolerance);
}

}  // namespace transducer_test
}  // namespace sotto::test
