// Runs of a tiny network, for tests of equivalence: the same curve whatever the budget does.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "sotto/train/step/step.h"
#include "support/tiny_corpus.h"

namespace sotto::test {

struct Curve {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;
};

inline std::vector<at::Tensor> weights_of(train::Learner& learner) {
  std::vector<at::Tensor> weights;
  for (const nn::Parameter& parameter : learner.model->parameters().parameters())
    weights.push_back(parameter.value.clone());
  return weights;
}

// The examples of a step of a run: other utterances at every step.
inline std::vector<data::Example> step_examples(int64_t step, int64_t batch) {
  return tiny_examples(batch, 100 + static_cast<uint64_t>(step));
}

// Steps 1 .. num_steps, each under the settings.
inline Curve run_curve(const train::RunConfig& config, train::StepSettings settings,
                       int64_t num_steps, int64_t batch, const at::Device& device = at::kCPU) {
  train::Learner learner(config, kTinyShape, device);
  Curve curve;
  for (settings.step = 1; settings.step <= num_steps; ++settings.step) {
    const train::StepResult result =
        train::run_step(learner, step_examples(settings.step, batch), settings);
    curve.losses.push_back(result.loss);
  }
  curve.weights = weights_of(learner);
  return curve;
}

inline bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) return false;
  }
  return true;
}

}  // namespace sotto::test
