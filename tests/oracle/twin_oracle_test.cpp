// Ten steps of the whole network against its PyTorch twin: forward, loss, backward, clipping and
// AdamW together.
#include <gtest/gtest.h>

#include "oracle/twin_fixture.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"

namespace sotto::test {
namespace {

train::RunConfig config_of(const nlohmann::json& twin) {
  train::RunConfig config;
  const nlohmann::json& shape = twin.at("shape");
  config.model.as<models::TransformerCtcOptions>().layers = shape.at("layers");
  config.model.as<models::TransformerCtcOptions>().width = shape.at("width");
  config.model.as<models::TransformerCtcOptions>().heads = shape.at("heads");
  config.model.as<models::TransformerCtcOptions>().hidden = shape.at("hidden");
  config.model.as<models::TransformerCtcOptions>().dropout = 0.0;
  config.optimizer = optimizer_of(twin.at("optimizer"));
  return config;
}

TEST(Twin, EndsInTheSameWeights) {
  const nlohmann::json twin = read_fixture("twin");
  expect_twin(twin, examples_of(twin), config_of(twin), {.tier = nn::Tier::kNone});
}

TEST(Twin, EndsInTheSameWeightsWithSplitAndRecompute) {
  const nlohmann::json twin = read_fixture("twin");
  expect_twin(twin, examples_of(twin), config_of(twin),
              {.tier = nn::Tier::kBlock, .limits = {.max_frames = 20}});
}

}  // namespace
}  // namespace sotto::test
