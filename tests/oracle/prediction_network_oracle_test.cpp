// The prediction network against transformers' Parakeet in double precision, by way of
// tests/fixtures/prediction_network.json, which make_prediction_network.py makes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "sotto/kernels/base/labels.h"
#include "sotto/nn/heads/prediction_network.h"
#include "support/fixture.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace prediction_network_oracle_test {

using nlohmann::json;
using nn::PredictionNetwork;

constexpr double kPredictionTolerance = 1e-5;

// Their names of our parameters.
std::map<std::string, std::string> names_of_layers(int64_t num_layers) {
  std::map<std::string, std::string> names = {{"embedding.weight", "embedding.weight"}};
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    for (const char* part : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
      names[fmt::format("lstm.{}.{}", layer, part)] = fmt::format("lstm.{}_l{}", part, layer);
    }
  }
  return names;
}

class PredictionNetworkOracle : public ::testing::TestWithParam<std::string> {};

TEST_P(PredictionNetworkOracle, AgreesWithTransformers) {
  const json fixture = read_fixture("prediction_network");
  const json& truth = fixture.at("cases").at(GetParam());
  const auto blank = fixture.at("blank").get<int32_t>();
  nn::ParameterStore store;
  const PredictionNetwork network(store, "decoder",
                                  {.vocabulary = fixture.at("vocabulary").get<int64_t>(),
                                   .blank = blank,
                                   .layers = fixture.at("layers").get<int64_t>(),
                                   .width = fixture.at("width").get<int64_t>(),
                                   .dropout = 0.0,
                                   .trains_blank = GetParam() == "trained"});
  store.allocate({});
  const auto names = names_of_layers(fixture.at("layers").get<int64_t>());
  ASSERT_EQ(store.parameters().size(), names.size());
  ASSERT_EQ(truth.at("weights").size(), names.size());
  for (const auto& [ours, theirs] : names)
    store.find("decoder." + ours)->value.copy_(fixture_tensor(truth.at("weights").at(theirs)));

  std::vector<int64_t> lengths;
  std::vector<std::vector<int32_t>> inputs;
  for (const auto& labels : fixture.at("labels").get<std::vector<std::vector<int32_t>>>()) {
    inputs.push_back({blank});
    inputs.back().insert(inputs.back().end(), labels.begin(), labels.end());
    lengths.push_back(std::ssize(inputs.back()));
  }
  const kernels::Packing packing(lengths, at::kCPU);
  const kernels::Labels tokens(inputs, at::kCPU);
  const PredictionNetwork::Rows rows{.tokens = tokens.device_values(), .packing = packing};
  nn::Tape tape;
  const at::Tensor y = network.forward(rows, {}, tape);
  EXPECT_LT(relative_error(y, fixture_tensor(truth.at("y"))), kPredictionTolerance);
  network.backward(fixture_tensor(truth.at("dy")).to(at::kFloat), rows, {}, tape);
  for (const auto& [ours, theirs] : names) {
    EXPECT_LT(relative_error(store.find("decoder." + ours)->gradient,
                             fixture_tensor(truth.at("gradients").at(theirs))),
              kPredictionTolerance)
        << ours;
  }
}

INSTANTIATE_TEST_SUITE_P(Blank, PredictionNetworkOracle, ::testing::Values("trained", "untrained"));

}  // namespace prediction_network_oracle_test
}  // namespace sotto::test
