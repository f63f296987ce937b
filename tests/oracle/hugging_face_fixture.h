// Networks of Hugging Face folders in fixtures: utterances, what transformers made of them, and
// comparisons with it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "oracle/model_oracle.h"
#include "oracle/optimizer_json.h"
#include "sotto/models/hub/hugging_face.h"
#include "sotto/train/step/run_config.h"
#include "sotto/train/step/step.h"

namespace sotto::test {

inline constexpr double kNetworkTolerance = 1e-4;

class HuggingFaceFixture : public ModelFixture {
 public:
  using ModelFixture::ModelFixture;

  train::RunConfig config_of_folder() const {
    train::RunConfig config;
    config.model = models::read_hugging_face(folder()).options;
    // A checkpoint of pretraining has no steps to compare.
    if (scalars().contains("optimizer")) config.optimizer = optimizer_of(scalars().at("optimizer"));
    return config;
  }

  std::vector<data::Example> examples() const {
    std::vector<data::Example> examples;
    for (int64_t u = 0; has(fmt::format("raw.{}", u)); ++u) {
      const at::Tensor values = tensor(fmt::format("raw.{}", u)).contiguous();
      data::Example& example = examples.emplace_back();
      example.utterance = u;
      example.values = {values.const_data_ptr<float>(),
                        values.const_data_ptr<float>() + values.numel()};
      example.rows = values.numel();
      if (has(fmt::format("labels.{}", u)))
        example.labels = whole_numbers(fmt::format("labels.{}", u));
    }
    return examples;
  }

  // Names of parameters whose exact gradient is zero.
  std::set<std::string> zero_gradients() const {
    return scalars().at("zero_gradients").get<std::set<std::string>>();
  }
};

// Compares the gradients of the loss of all utterances in one pack. `learner` has the fixture's
// weights.
inline void expect_gradients(train::Learner& learner, const HuggingFaceFixture& fixture,
                             models::Reduction reduction = models::Reduction::kCtcMean) {
  const std::vector<data::Example> examples = fixture.examples();
  const std::optional<data::DecoderTokens>& decoder = learner.model->outline().decoder;
  const data::MicroBatch batch = packed_batch(examples, at::kCPU, decoder);
  const int64_t num_ends = decoder && decoder->counts_end ? 1 : 0;
  std::vector<int64_t> label_lengths;
  for (const data::Example& example : examples)
    label_lengths.push_back(std::ssize(example.labels) + num_ends);
  const std::vector<float> weights = models::utterance_weights(reduction, label_lengths);
  nn::Tape tape;
  learner.model->parameters().zero_gradients();
  learner.model->forward(batch, {}, weights, tape);
  learner.model->backward(batch, {}, tape);

  const std::set<std::string> zeros = fixture.zero_gradients();
  std::vector<models::NamedTensor> trained;
  for (const models::NamedTensor& named : learner.model->named_weights()) {
    if (gradient_of(*learner.model, named).defined()) trained.push_back(named);
  }
  double largest = 0.0;
  for (const models::NamedTensor& named : trained)
    largest = std::max(largest, gradient_of(*learner.model, named).abs().max().item<double>());
  for (const models::NamedTensor& named : trained) {
    const at::Tensor ours = as_in_file(named, gradient_of(*learner.model, named));
    if (zeros.contains(named.name) || !fixture.has("gradients." + named.name)) {
      EXPECT_LT(ours.abs().max().item<double>(), 1e-6 * largest) << named.name;
    } else {
      EXPECT_LT(relative_error(ours, fixture.tensor("gradients." + named.name)), kNetworkTolerance)
          << named.name;
    }
  }
}

// Over a few frames, slow waves of a table of positions hardly change: the gradients of their
// weights are so small that Adam, which divides by their size, shows their rounding errors.
inline double final_tolerance(const std::string& name, double of_others) {
  return name.ends_with("relative_k_proj.weight") ? 10.0 * kNetworkTolerance : of_others;
}

// How a learner takes the steps, and how near it must come.
struct ExpectedSteps {
  nn::Tier tier = nn::Tier::kNone;
  double tolerance = kNetworkTolerance;
  models::Reduction reduction = models::Reduction::kCtcMean;
};

// Compares losses and weights over five steps. `learner` has the fixture's weights.
inline void expect_five_steps(train::Learner& learner, const HuggingFaceFixture& fixture,
                              const ExpectedSteps& expected) {
  const std::vector<data::Example> examples = fixture.examples();
  train::StepSettings settings{
      .reduction = expected.reduction, .tier = expected.tier, .total_steps = 5};
  for (const nlohmann::json& loss : fixture.scalars().at("step_losses")) {
    const train::StepResult result = train::run_step(learner, examples, settings);
    EXPECT_NEAR(result.loss, loss.get<double>(), kNetworkTolerance * loss.get<double>());
    ++settings.step;
  }
  const std::set<std::string> zeros = fixture.zero_gradients();
  for (const models::NamedTensor& named : learner.model->named_weights()) {
    // Adam makes steps of rounding errors where the gradient is zero; statistics have none.
    if (zeros.contains(named.name) || !gradient_of(*learner.model, named).defined()) continue;
    EXPECT_LT(
        relative_error(as_in_file(named, named.tensor), fixture.tensor("final." + named.name)),
        final_tolerance(named.name, expected.tolerance))
        << named.name;
  }
}

}  // namespace sotto::test
