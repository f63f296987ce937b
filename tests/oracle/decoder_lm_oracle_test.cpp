// The decoder language model against its PyTorch twin, which is held against GPT-2 where it is
// made.
#include "oracle/decoder_lm_fixture.h"
#include "sotto/models/decoder_lm/decoder_lm.h"
#include "sotto/train/step/step.h"

namespace sotto::test {
namespace decoder_lm_oracle_test {

constexpr double kTolerance = 1e-4;

class DecoderLmOracle : public ::testing::TestWithParam<const char*> {
 protected:
  data::MicroBatch batch() const { return packed_batch(fixture_.examples(), at::kCPU); }

  DecoderLmFixture fixture_{GetParam()};
};

TEST_P(DecoderLmOracle, GivesTheSameLogitsAndLosses) {
  train::Learner learner(fixture_.config(), fixture_.shape(), at::kCPU);
  fixture_.load(*learner.model);
  auto& model = dynamic_cast<models::DecoderLm&>(*learner.model);
  EXPECT_LT(relative_error(model.logits(batch()), fixture_.packed("logits")), kTolerance);
  const nlohmann::json& losses = fixture_.scalars().at("losses");
  const auto by_row = losses.at("by_row").get<std::vector<double>>();
  nn::Tape tape;
  const std::vector<float> weights(by_row.size(), 1.0f);
  const at::Tensor ours = model.forward(batch(), {}, weights, tape).terms.front();
  for (size_t u = 0; u < by_row.size(); ++u)
    EXPECT_NEAR(ours[static_cast<int64_t>(u)].item<float>(), by_row[u], kTolerance * by_row[u]);
  // Evaluation knows no smoothing.
  const double plain = at::cross_entropy_loss(fixture_.packed("logits"),
                                              batch().labels.device_values().to(at::kLong),
                                              /*weight=*/{}, at::Reduction::Sum)
                           .item<double>();
  EXPECT_NEAR(model.recognise(batch()).losses.terms.front().sum().item<double>(), plain,
              kTolerance * plain);
  for (const auto& [name, reduction] : train::kReductions) {
    if (!losses.contains(std::string(name))) continue;
    fixture_.load(*learner.model);
    const train::StepResult result =
        train::run_step(learner, fixture_.examples(), {.reduction = reduction});
    const double expected = losses.at(std::string(name));
    EXPECT_NEAR(result.loss, expected, kTolerance * expected) << name;
  }
}

TEST_P(DecoderLmOracle, GivesTheSameGradients) {
  train::Learner learner(fixture_.config(), fixture_.shape(), at::kCPU);
  fixture_.load(*learner.model);
  const float weight = 1.0f / fixture_.scalars().at("num_targets").get<float>();
  nn::Tape tape;
  learner.model->parameters().zero_gradients();
  learner.model->forward(batch(), {}, std::vector<float>(3, weight), tape);
  learner.model->backward(batch(), {}, tape);
  for (const nn::Parameter& parameter : learner.model->parameters().parameters()) {
    const std::string& name = parameter.spec.name;
    EXPECT_LT(relative_error(fixture_.without_zeros(name, parameter.gradient),
                             fixture_.without_zeros(name, fixture_.tensor("gradients." + name))),
              kTolerance)
        << name;
  }
}

TEST_P(DecoderLmOracle, EndsInTheSameWeightsAfterFiveSteps) {
  train::Learner learner(fixture_.config(), fixture_.shape(), at::kCPU);
  fixture_.load(*learner.model);
  train::StepSettings settings{.reduction = models::Reduction::kTokens,
                               .tier = nn::Tier::kBlock,
                               .total_steps = 5,
                               .limits = {.max_frames = 10}};
  for (const nlohmann::json& loss : fixture_.scalars().at("step_losses")) {
    EXPECT_NEAR(train::run_step(learner, fixture_.examples(), settings).loss, loss.get<double>(),
                kTolerance * loss.get<double>());
    ++settings.step;
  }
  for (const nn::Parameter& parameter : learner.model->parameters().parameters()) {
    const std::string& name = parameter.spec.name;
    EXPECT_LT(relative_error(fixture_.without_zeros(name, parameter.value),
                             fixture_.without_zeros(name, fixture_.tensor("final." + name))),
              kTolerance)
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, DecoderLmOracle,
                         ::testing::Values("sinusoidal", "learned_tied", "smoothing"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace decoder_lm_oracle_test
}  // namespace sotto::test
