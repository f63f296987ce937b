// Whole networks beside their PyTorch twins: steps from the same weights to the same weights.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "oracle/optimizer_json.h"
#include "sotto/train/step/step.h"
#include "support/fixture.h"
#include "support/tolerance.h"

namespace sotto::test {

inline std::vector<data::Example> examples_of(const nlohmann::json& twin) {
  std::vector<data::Example> examples;
  for (size_t u = 0; u < twin.at("features").size(); ++u) {
    const at::Tensor features = fixture_tensor(twin.at("features")[u]).to(at::kFloat).contiguous();
    const float* values = features.const_data_ptr<float>();
    examples.push_back({.utterance = static_cast<int64_t>(u),
                        .values = {values, values + features.numel()},
                        .rows = features.size(0),
                        .feature_dim = features.size(1),
                        .labels = twin.at("labels")[u].get<std::vector<int32_t>>()});
  }
  return examples;
}

// The exact gradient of the key's bias is zero: Adam makes steps of its rounding errors.
inline at::Tensor without_key_bias(const std::string& name, const at::Tensor& values) {
  if (name.ends_with("cross.kv.bias")) return values.chunk(2)[1];
  if (!name.ends_with("attention.qkv.bias")) return values;
  const std::vector<at::Tensor> parts = values.chunk(3);
  return at::cat({parts[0], parts[2]});
}

// Adam divides small gradients by their size: their last digits, which differ between processors,
// show in the weights.
inline constexpr double kFinalTolerance = 3e-5;

// Takes the steps of `twin` from its initial weights with the network and optimizer of `config`.
inline void expect_twin(const nlohmann::json& twin, const std::vector<data::Example>& examples,
                        const train::RunConfig& config, const train::StepSettings& common) {
  const nlohmann::json& shape = twin.at("shape");
  train::Learner learner(
      config,
      {.vocabulary = shape.at("vocabulary"), .blank = 0, .feature_dim = shape.at("features")},
      at::kCPU);
  nn::ParameterStore& store = learner.model->parameters();
  ASSERT_EQ(store.parameters().size(), twin.at("initial").size());
  for (nn::Parameter& parameter : store.parameters())
    parameter.value.copy_(fixture_tensor(twin.at("initial").at(parameter.spec.name)));

  train::StepSettings settings = common;
  for (const nlohmann::json& loss : twin.at("losses")) {
    const train::StepResult result = train::run_step(learner, examples, settings);
    EXPECT_NEAR(result.loss, loss.get<double>(), 1e-5) << "step " << settings.step;
    ++settings.step;
  }
  for (const nn::Parameter& parameter : store.parameters()) {
    const std::string& name = parameter.spec.name;
    EXPECT_LT(relative_error(without_key_bias(name, parameter.value),
                             without_key_bias(name, fixture_tensor(twin.at("final").at(name)))),
              kFinalTolerance)
        << name;
  }
}

}  // namespace sotto::test
