// The prediction network of a transducer: against autograd in double precision, at every tier,
// alone and in a pack, as a whole and token by token.
#include "sotto/nn/heads/prediction_network.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/block_fixture.h"
#include "support/block_part.h"
#include "support/tolerance.h"

namespace sotto::nn {
namespace {

using kernels::Packing;
using test::relative_error;

constexpr double kPredictionTolerance = 1e-5;
constexpr PredictionNetworkOptions kSmall{.vocabulary = 7, .blank = 6, .width = 12, .dropout = 0.0};

at::Tensor ids(const std::vector<int32_t>& values) {
  return at::tensor(values, at::kInt);
}

// The labels of four utterances, one of which has none, after the blank.
const std::vector<std::vector<int32_t>> kSequences = {{6, 1, 2}, {6}, {6, 3, 3, 0, 5}, {6, 4, 1}};

struct PackedLabels {
  at::Tensor tokens;
  Packing packing;

  explicit PackedLabels(const std::vector<std::vector<int32_t>>& sequences,
                        std::vector<UtteranceKey> keys = {})
      : packing(lengths_of(sequences), at::kCPU, std::move(keys)) {
    std::vector<int32_t> all;
    for (const auto& sequence : sequences) all.insert(all.end(), sequence.begin(), sequence.end());
    tokens = ids(all);
  }

  PredictionNetwork::Rows rows() const { return {.tokens = tokens, .packing = packing}; }

 private:
  static std::vector<int64_t> lengths_of(const std::vector<std::vector<int32_t>>& sequences) {
    std::vector<int64_t> lengths;
    for (const auto& sequence : sequences) lengths.push_back(std::ssize(sequence));
    return lengths;
  }
};

struct Network {
  explicit Network(const PredictionNetworkOptions& options)
      : network(store, "prediction", options) {
    store.allocate({.seed = 3});
  }

  ParameterStore store;
  PredictionNetwork network;
};

// The weights of layers begin .. end - 1 in ATen's order.
std::vector<at::Tensor> weights_of(const test::Leaves& leaves, int64_t begin, int64_t end) {
  std::vector<at::Tensor> weights;
  for (int64_t layer = begin; layer < end; ++layer) {
    for (const char* name : {".weight_ih", ".weight_hh", ".bias_ih", ".bias_hh"})
      weights.push_back(leaves.at("prediction.lstm." + std::to_string(layer) + name));
  }
  return weights;
}

// LSTM layers by ATen, sequence by sequence: [N, H] for x [N, H].
at::Tensor lstm_of(const at::Tensor& x, const Packing& packing,
                   const std::vector<at::Tensor>& weights) {
  const auto num_layers = static_cast<int64_t>(weights.size() / 4);
  const at::Tensor zero = at::zeros({num_layers, 1, x.size(1)}, at::kDouble);
  std::vector<at::Tensor> parts;
  for (const at::Tensor& rows : x.split_with_sizes(packing.lengths())) {
    const auto result = at::lstm(rows.unsqueeze(1), {zero, zero}, weights, true, num_layers, 0.0,
                                 false, false, false);
    parts.push_back(std::get<0>(result).squeeze(1));
  }
  return at::cat(parts);
}

at::Tensor truth_of(const PackedLabels& labels, const test::Leaves& leaves) {
  const at::Tensor x = leaves.at("prediction.embedding.weight").index_select(0, labels.tokens);
  return lstm_of(x, labels.packing, weights_of(leaves, 0, kSmall.layers));
}

// The result and the gradients of one micro-batch.
struct Outcome {
  at::Tensor y;
  std::vector<at::Tensor> gradients;
};

Outcome run_prediction(const Network& network, const PackedLabels& labels, const at::Tensor& dy,
                       Tier tier, const StepContext& step = {}) {
  device::HostMemory host(at::kCPU);
  HostTape on_host(host);
  Tape tape({tier, tier}, &on_host);
  Outcome outcome;
  outcome.y = network.network.forward(labels.rows(), step, tape);
  network.network.backward(dy.clone(), labels.rows(), step, tape);
  EXPECT_EQ(tape.num_open(), 0);
  outcome.gradients = test::gradients_of(network.store);
  return outcome;
}

TEST(PredictionNetwork, MatchesAutogradAtEveryTier) {
  at::manual_seed(6);
  const PackedLabels labels(kSequences);
  const at::Tensor dy = at::randn({labels.packing.num_frames(), kSmall.width});
  for (const auto& [name, tier] : kTiers) {
    SCOPED_TRACE(name);
    const Network network(kSmall);
    const auto leaves = test::leaves_of(network.store);
    const at::Tensor truth = truth_of(labels, leaves);
    truth.backward(dy.to(at::kDouble));
    const Outcome outcome = run_prediction(network, labels, dy, tier);
    EXPECT_LT(relative_error(outcome.y, truth.detach()), kPredictionTolerance);
    for (const Parameter& parameter : network.store.parameters()) {
      EXPECT_LT(relative_error(parameter.gradient, leaves.at(parameter.spec.name).grad()),
                kPredictionTolerance)
          << parameter.spec.name;
    }
  }
}

TEST(PredictionNetwork, TiersGiveTheSameBits) {
  at::manual_seed(7);
  const PackedLabels labels(kSequences);
  const at::Tensor dy = at::randn({labels.packing.num_frames(), kSmall.width});
  PredictionNetworkOptions options = kSmall;
  options.dropout = 0.2;
  const Outcome reference = run_prediction(Network(options), labels, dy, Tier::kNone);
  for (const auto& [name, tier] : kTiers) {
    const Outcome outcome = run_prediction(Network(options), labels, dy, tier);
    EXPECT_TRUE(at::equal(outcome.y, reference.y)) << name;
    for (size_t i = 0; i < reference.gradients.size(); ++i)
      EXPECT_TRUE(at::equal(outcome.gradients[i], reference.gradients[i])) << name << " " << i;
  }
}

// Dropout included: it is keyed by the utterance and the place in it.
TEST(PredictionNetwork, SequencesTogetherAreAsEachAlone) {
  at::manual_seed(8);
  const std::vector<UtteranceKey> keys = {
      {.utterance = 4}, {.utterance = 1}, {.utterance = 9}, {.utterance = 2}};
  const PackedLabels together(kSequences, keys);
  const at::Tensor dy = at::randn({together.packing.num_frames(), kSmall.width});
  PredictionNetworkOptions options = kSmall;
  options.dropout = 0.2;
  const Outcome expected = run_prediction(Network(options), together, dy, Tier::kNone);
  const Network one_by_one(options);
  std::vector<at::Tensor> parts;
  for (size_t u = 0; u < kSequences.size(); ++u) {
    const PackedLabels alone({kSequences[u]}, {keys[u]});
    const at::Tensor part =
        dy.narrow(0, together.packing.starts()[u], together.packing.lengths()[u]);
    parts.push_back(run_prediction(one_by_one, alone, part, Tier::kNone).y);
  }
  EXPECT_LT(relative_error(at::cat(parts), expected.y), kPredictionTolerance);
  const std::vector<at::Tensor> sums = test::gradients_of(one_by_one.store);
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_LT(relative_error(sums[i], expected.gradients[i]), kPredictionTolerance) << i;
}

// The first layer alone gives what the second reads, as its values, keys and mask are the same.
TEST(PredictionNetwork, DropsAfterEachLayerInTrainingOnly) {
  const PackedLabels labels(kSequences);
  PredictionNetworkOptions options = kSmall;
  options.width = 64;
  options.dropout = 0.25;
  const Network both(options);
  options.layers = 1;
  const Network first(options);
  const auto result = [&](const Network& network, const StepContext& step) {
    Tape tape;
    return network.network.forward(labels.rows(), step, tape).to(at::kDouble);
  };
  const auto share_of_zeros = [](const at::Tensor& y) {
    return (y == 0.0).to(at::kDouble).mean().item<double>();
  };
  const at::Tensor middle = result(first, {}), y = result(both, {});
  EXPECT_NEAR(share_of_zeros(middle), 0.25, 0.06);
  EXPECT_NEAR(share_of_zeros(y), 0.25, 0.06);
  EXPECT_EQ(share_of_zeros(result(both, {.is_training = false})), 0.0);
  const at::Tensor second =
      lstm_of(middle, labels.packing, weights_of(test::leaves_of(both.store), 1, 2)).detach();
  EXPECT_LT(relative_error(y * 0.75, at::where(y == 0.0, 0.0, second)), kPredictionTolerance);
}

// Backward applies the mask of forward, which shows in the zeros of y.
TEST(PredictionNetwork, DroppedGradientsAreThoseOfTheMask) {
  at::manual_seed(10);
  const PackedLabels labels(kSequences);
  PredictionNetworkOptions options = kSmall;
  options.layers = 1;
  const Network plain(options);
  options.dropout = 0.25;
  const at::Tensor dy = at::randn({labels.packing.num_frames(), kSmall.width});
  const Outcome dropped = run_prediction(Network(options), labels, dy, Tier::kNone);
  const at::Tensor masked = at::where(dropped.y == 0.0, 0.0, dy / 0.75);
  const Outcome expected = run_prediction(plain, labels, masked, Tier::kNone);
  for (size_t i = 0; i < expected.gradients.size(); ++i)
    EXPECT_LT(relative_error(dropped.gradients[i], expected.gradients[i]), kPredictionTolerance)
        << i;
}

TEST(PredictionNetwork, StartsAsInNemo) {
  PredictionNetworkOptions options = kSmall;
  options.width = 100;
  options.trains_blank = false;
  Network network(options);
  const auto value = [&](const std::string& name) {
    return network.store.find("prediction." + name)->value.to(at::kDouble);
  };
  const at::Tensor table = value("embedding.weight");
  EXPECT_NEAR(table.narrow(0, 0, 6).std().item<double>(), 1.0, 0.1);
  EXPECT_EQ(table[6].abs().max().item<double>(), 0.0);
  const double bound = 1.0 / std::sqrt(100.0);
  for (const char* name : {"lstm.0.weight_ih", "lstm.1.weight_hh", "lstm.0.bias_ih"}) {
    at::Tensor values = value(name);
    if (values.dim() == 1) values = at::cat({values.narrow(0, 0, 100), values.narrow(0, 200, 200)});
    EXPECT_LE(values.abs().max().item<double>(), bound) << name;
    EXPECT_GT(values.abs().max().item<double>(), 0.95 * bound) << name;
    EXPECT_NEAR(values.std().item<double>(), bound / std::sqrt(3.0), 0.1 * bound) << name;
  }
  EXPECT_TRUE((value("lstm.1.bias_ih").narrow(0, 100, 100) == 1.0).all().item<bool>());
  EXPECT_TRUE((value("lstm.1.bias_hh").narrow(0, 100, 100) == 0.0).all().item<bool>());
}

TEST(PredictionNetwork, TrainsTheBlankOnlyWhereItIsSaid) {
  at::manual_seed(9);
  const PackedLabels labels(kSequences);
  const at::Tensor dy = at::randn({labels.packing.num_frames(), kSmall.width});
  PredictionNetworkOptions options = kSmall;
  for (const bool trains_blank : {true, false}) {
    options.trains_blank = trains_blank;
    Network network(options);
    run_prediction(network, labels, dy, Tier::kNone);
    const at::Tensor& gradient = network.store.find("prediction.embedding.weight")->gradient;
    EXPECT_EQ(gradient[6].abs().max().item<float>() > 0.0f, trains_blank);
    EXPECT_GT(gradient[3].abs().max().item<float>(), 0.0f);
  }
}

TEST(PredictionNetwork, EvaluationKeepsNothing) {
  const PackedLabels labels(kSequences);
  const Network network(kSmall);
  Tape tape;
  network.network.forward(labels.rows(), {.is_training = false}, tape);
  EXPECT_EQ(tape.num_open(), 0);
}

// A token at a time gives the rows of the whole; a sequence that has ended keeps its state.
TEST(PredictionNetwork, StepsGiveTheRowsOfForward) {
  const PackedLabels labels(kSequences);
  const Network network(kSmall);
  Tape tape;
  const at::Tensor whole = network.network.forward(labels.rows(), {.is_training = false}, tape);
  PredictionNetwork::State state = network.network.make_state(4, at::kCPU);
  for (size_t place = 0; place < 5; ++place) {
    std::vector<int32_t> tokens, active;
    for (size_t u = 0; u < kSequences.size(); ++u) {
      if (place >= kSequences[u].size()) continue;
      tokens.push_back(kSequences[u][place]);
      active.push_back(static_cast<int32_t>(u));
    }
    const at::Tensor rows = ids(active);
    const at::Tensor y =
        network.network.step({.tokens = ids(tokens), .from = rows, .to = rows}, state);
    for (size_t i = 0; i < active.size(); ++i) {
      const int64_t row =
          labels.packing.starts()[static_cast<size_t>(active[i])] + static_cast<int64_t>(place);
      EXPECT_LT(relative_error(y[static_cast<int64_t>(i)], whole[row]), kPredictionTolerance);
    }
  }
}

// Two hypotheses continue from one row, which stays as it is for a third.
TEST(PredictionNetwork, HypothesesThatSplitShareARow) {
  const Network network(kSmall);
  PredictionNetwork::State state = network.network.make_state(3, at::kCPU);
  network.network.step({.tokens = ids({6}), .from = ids({0}), .to = ids({0})}, state);
  const at::Tensor split =
      network.network.step({.tokens = ids({1, 2}), .from = ids({0, 0}), .to = ids({1, 2})}, state);
  const at::Tensor later =
      network.network.step({.tokens = ids({2}), .from = ids({0}), .to = ids({0})}, state);
  EXPECT_LT(relative_error(later[0], split[1]), kPredictionTolerance);
  EXPECT_GT(relative_error(split[0], split[1]), 0.01);
}

}  // namespace
}  // namespace sotto::nn
