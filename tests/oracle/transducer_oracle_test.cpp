// The transducer losses on 500 small lattices against the definition in double precision, which
// make_transducer.py compares with torchaudio and transformers.
#include <gtest/gtest.h>

#include "oracle/random_json.h"
#include "support/fixture.h"
#include "support/tolerance.h"
#include "support/transducer_reference.h"

namespace sotto::test {
namespace transducer_oracle_test {

using nlohmann::json;

TransducerPack pack_of(const json& values) {
  const json& dropout = values.at("dropout");
  TransducerPack pack{
      .frames = values.at("frames").get<std::vector<int64_t>>(),
      .labels = values.at("labels").get<std::vector<std::vector<int32_t>>>(),
      .weights = values.at("weights").get<std::vector<float>>(),
      .without_durations = values.at("without_durations").get<std::vector<uint8_t>>(),
      .durations = values.at("durations").get<std::vector<int64_t>>(),
      .blank = values.at("blank").get<int64_t>(),
      .sigma = values.at("sigma").get<double>(),
      .dropout = {.key = random_key(dropout.at("key")),
                  .probability = dropout.at("probability").get<double>()}};
  for (const json& key : dropout.at("utterances")) pack.keys.push_back(utterance_key(key));
  return pack;
}

TransducerInputs inputs_of(const json& values) {
  const auto input = [&](const char* name) {
    return fixture_tensor(values.at("inputs").at(name)).to(at::kFloat);
  };
  return {.encoder = input("encoder"),
          .prediction = input("prediction"),
          .weight = input("weight"),
          .bias = input("bias")};
}

TEST(TransducerOracle, AgreesWithTheDefinition) {
  const json fixture = read_fixture("transducer");
  int64_t num_lattices = 0, num_infeasible = 0;
  for (size_t i = 0; i < fixture.at("packs").size(); ++i) {
    const json& values = fixture.at("packs")[i];
    const TransducerPack pack = pack_of(values);
    num_lattices += pack.num_utterances();
    for (const int64_t nodes : {0, 1'000}) {
      SCOPED_TRACE("pack " + std::to_string(i) + ", chunks of " + std::to_string(nodes));
      const TransducerResults ours = run_transducer(pack, inputs_of(values), nodes);
      const json& truth = values.at("results");
      const auto expect_near = [&](const at::Tensor& tensor, const char* name) {
        EXPECT_LE(relative_error(tensor, fixture_tensor(truth.at(name))),
                  kernel_tolerance(at::kFloat))
            << name;
      };
      expect_near(ours.loss, "loss");
      expect_near(ours.d_encoder, "d_encoder");
      expect_near(ours.d_prediction, "d_prediction");
      expect_near(ours.grad_weight, "grad_weight");
      expect_near(ours.grad_bias, "grad_bias");
      EXPECT_EQ(ours.infeasible, values.at("infeasible").get<std::vector<int64_t>>());
    }
    num_infeasible += std::ssize(values.at("infeasible"));
  }
  EXPECT_EQ(num_lattices, 500);
  EXPECT_GT(num_infeasible, 10);
}

}  // namespace transducer_oracle_test
}  // namespace sotto::test
