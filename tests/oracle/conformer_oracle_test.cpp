// Five steps of conformer networks with both heads against PyTorch, one utterance at a time there:
// forward, both losses, backward, clipping and AdamW together.
#include <gtest/gtest.h>

#include "oracle/twin_fixture.h"
#include "sotto/models/conformer/conformer.h"

namespace sotto::test {
namespace {

train::RunConfig config_of(const nlohmann::json& all, const nlohmann::json& network) {
  train::RunConfig config;
  config.model = models::ModelOptions::of_preset("conformer-128");
  auto& options = config.model.as<models::ConformerOptions>();
  const nlohmann::json& shape = network.at("shape");
  options.layers = shape.at("layers");
  options.width = shape.at("width");
  options.heads = shape.at("heads");
  options.hidden = shape.at("hidden");
  options.kernel = shape.at("kernel");
  options.decoder_layers = shape.at("decoder_layers");
  options.label_smoothing = shape.at("smoothing");
  options.subsampling_factor = shape.at("factor");
  options.subsampling = shape.at("separable").get<bool>() ? nn::ImageSubsamplingKind::kSeparable
                                                          : nn::ImageSubsamplingKind::kPlain;
  options.convolution_norm =
      shape.at("norm") == "group" ? nn::InnerNormKind::kGroup : nn::InnerNormKind::kLayer;
  options.ctc_weight = all.at("ctc_weight");
  options.dropout = 0.0;
  config.optimizer = optimizer_of(all.at("optimizer"));
  return config;
}

void expect_conformer(const std::string& name, const train::StepSettings& settings) {
  const nlohmann::json all = read_fixture("conformer");
  const nlohmann::json& network = all.at("networks").at(name);
  expect_twin(network, examples_of(all), config_of(all, network), settings);
}

TEST(ConformerOracle, PlainEndsInTheSameWeights) {
  expect_conformer("plain", {.tier = nn::Tier::kNone});
  expect_conformer("plain", {.tier = nn::Tier::kBlock, .limits = {.max_frames = 20}});
}

TEST(ConformerOracle, SeparableEndsInTheSameWeights) {
  expect_conformer("separable", {.tier = nn::Tier::kNorms});
  expect_conformer("separable", {.tier = nn::Tier::kQkv, .limits = {.max_frames = 10}});
}

}  // namespace
}  // namespace sotto::test
