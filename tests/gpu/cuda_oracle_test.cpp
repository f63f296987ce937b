// wav2vec2 and the language model on a GPU in every arithmetic, against what Hugging Face and
// PyTorch made of the same weights in fp32 (tests/oracle).
#include <gtest/gtest.h>

#include <cmath>

#include "oracle/decoder_lm_fixture.h"
#include "oracle/wav2vec2_fixture.h"
#include "sotto/models/decoder_lm/decoder_lm.h"
#include "sotto/models/wav2vec2/wav2vec2.h"
#include "sotto/train/step/step.h"
#include "support/gpu.h"

namespace sotto::test {
namespace {

NetworkTolerance tolerance_of(train::Numerics numerics) {
  switch (numerics) {
    case train::Numerics::kFp32: return network_tolerance(24);
    case train::Numerics::kTf32:
    case train::Numerics::kFp16: return network_tolerance(11);
    case train::Numerics::kBf16Exact:
    case train::Numerics::kBf16Lean: return network_tolerance(8);
  }
  return {};
}

struct Case {
  std::string variant;
  Named<train::Numerics> numerics;
};

std::vector<Case> cases_of(const std::vector<std::string>& variants) {
  std::vector<Case> cases;
  for (const std::string& variant : variants) {
    for (const Named<train::Numerics>& numerics : train::kNumerics)
      cases.push_back({.variant = variant, .numerics = numerics});
  }
  return cases;
}

std::string name_of(const ::testing::TestParamInfo<Case>& test) {
  std::string name = fmt::format("{}_{}", test.param.variant, test.param.numerics.name);
  std::ranges::replace(name, '-', '_');
  return name;
}

class CudaOracle : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    SOTTO_SKIP_WITHOUT_GPU();
    train::apply_arithmetic(train::preset_of(numerics()));
  }

  train::Numerics numerics() const { return GetParam().numerics.value; }
  NetworkTolerance tolerance() const { return tolerance_of(numerics()); }

  // Small gradients would be lost in fp16.
  float scale() const { return numerics() == train::Numerics::kFp16 ? 1024.0f : 1.0f; }

  train::Learner learner(train::RunConfig config, const models::DataShape& shape) const {
    config.numerics = numerics();
    return {config, shape, gpu()->torch, int64_t{64} << 20};
  }

  // The step losses of a fixture, from the weights as they are.
  void expect_step_losses(train::Learner& learner, const std::vector<data::Example>& examples,
                          train::StepSettings settings, const nlohmann::json& losses) const {
    const double curve_tolerance =
        numerics() == train::Numerics::kFp32 ? kCudaCurveTolerance : kHalfCurveTolerance;
    settings.loss_scale = scale();
    settings.total_steps = std::ssize(losses);
    for (const nlohmann::json& loss : losses) {
      EXPECT_NEAR(train::run_step(learner, examples, settings).loss, loss.get<double>(),
                  curve_tolerance * loss.get<double>())
          << "step " << settings.step;
      ++settings.step;
    }
  }

  // Of a backward whose weights were times scale().
  void expect_gradient(const std::string& name, const at::Tensor& ours, const at::Tensor& truth) {
    const double error = relative_error(ours / scale(), truth);
    worst_gradient_ = std::max(worst_gradient_, error);
    EXPECT_LT(error, tolerance().gradients) << name;
  }

  void TearDown() override {
    RecordProperty("worst_gradient", fmt::format("{:.2e}", worst_gradient_));
    RecordProperty("logits", fmt::format("{:.2e}", logits_));
  }

  void expect_logits(const at::Tensor& ours, const at::Tensor& truth) {
    logits_ = relative_error(ours, truth);
    EXPECT_LT(logits_, tolerance().logits);
  }

 private:
  double worst_gradient_ = 0.0;
  double logits_ = 0.0;
};

class CudaWav2Vec2Oracle : public CudaOracle {
 protected:
  Wav2Vec2Fixture fixture_{GetParam().variant};
};

TEST_P(CudaWav2Vec2Oracle, AgreesInAllNumerics) {
  const device::TargetScope target(gpu()->target);
  train::Learner learner = this->learner(fixture_.config(), Wav2Vec2Fixture::kShape);
  models::load_hugging_face(fixture_.folder(), *learner.model);
  auto& model = dynamic_cast<models::Wav2Vec2&>(*learner.model);
  const std::vector<data::Example> examples = fixture_.examples();
  const data::MicroBatch batch = packed_batch(examples, gpu()->torch);
  expect_logits(model.logits(batch), fixture_.packed("logits"));

  std::vector<int64_t> label_lengths;
  for (const data::Example& example : examples) label_lengths.push_back(std::ssize(example.labels));
  std::vector<float> weights =
      models::utterance_weights(models::Reduction::kCtcMean, label_lengths);
  for (float& weight : weights) weight *= scale();
  nn::Tape tape;
  model.parameters().zero_gradients();
  model.forward(batch, {}, weights, tape);
  model.backward(batch, {}, tape);
  const std::set<std::string> zeros = fixture_.zero_gradients();
  for (const models::NamedTensor& named : model.named_weights()) {
    const std::string name = "gradients." + named.name;
    if (zeros.contains(named.name) || !fixture_.has(name)) continue;
    expect_gradient(name, as_in_file(named, gradient_of(model, named)), fixture_.tensor(name));
  }
  expect_step_losses(learner, examples, {.tier = nn::Tier::kBlock},
                     fixture_.scalars().at("step_losses"));
}

INSTANTIATE_TEST_SUITE_P(All, CudaWav2Vec2Oracle, ::testing::ValuesIn(cases_of({"base", "stable"})),
                         name_of);

class CudaDecoderLmOracle : public CudaOracle {
 protected:
  DecoderLmFixture fixture_{GetParam().variant};
};

TEST_P(CudaDecoderLmOracle, AgreesInAllNumerics) {
  const device::TargetScope target(gpu()->target);
  train::Learner learner = this->learner(fixture_.config(), fixture_.shape());
  fixture_.load(*learner.model);
  auto& model = dynamic_cast<models::DecoderLm&>(*learner.model);
  const std::vector<data::Example> examples = fixture_.examples();
  const data::MicroBatch batch = packed_batch(examples, gpu()->torch);
  expect_logits(model.logits(batch), fixture_.packed("logits"));

  const float weight = scale() / fixture_.scalars().at("num_targets").get<float>();
  nn::Tape tape;
  model.parameters().zero_gradients();
  model.forward(batch, {}, std::vector<float>(examples.size(), weight), tape);
  model.backward(batch, {}, tape);
  for (const nn::Parameter& parameter : model.parameters().parameters()) {
    const std::string& name = parameter.spec.name;
    expect_gradient(name, fixture_.without_zeros(name, parameter.gradient),
                    fixture_.without_zeros(name, fixture_.tensor("gradients." + name)));
  }
  expect_step_losses(learner, examples,
                     {.reduction = models::Reduction::kTokens,
                      .tier = nn::Tier::kBlock,
                      .limits = {.max_frames = 10}},
                     fixture_.scalars().at("step_losses"));
}

INSTANTIATE_TEST_SUITE_P(All, CudaDecoderLmOracle,
                         ::testing::ValuesIn(cases_of({"sinusoidal", "learned_tied", "smoothing"})),
                         name_of);

}  // namespace
}  // namespace sotto::test
