// wav2vec2 against Hugging Face's: each utterance alone there, all of them packed here.
#include <algorithm>
#include <numeric>
#include <set>

#include "oracle/model_oracle.h"
#include "oracle/optimizer_json.h"
#include "sotto/data/micro_batch.h"
#include "sotto/models/hugging_face.h"
#include "sotto/models/wav2vec2.h"
#include "sotto/train/step.h"

namespace sotto::test {
namespace {

constexpr double kTolerance = 1e-4;
constexpr int64_t kVocabulary = 12;

std::vector<data::Example> examples_of(const ModelFixture& fixture, const std::string& samples) {
  std::vector<data::Example> examples;
  for (int64_t u = 0; fixture.has(fmt::format("{}.{}", samples, u)); ++u) {
    const at::Tensor values = fixture.tensor(fmt::format("{}.{}", samples, u)).contiguous();
    data::Example& example = examples.emplace_back();
    example.utterance = u;
    example.values = {values.const_data_ptr<float>(),
                      values.const_data_ptr<float>() + values.numel()};
    example.rows = values.numel();
    if (fixture.has(fmt::format("labels.{}", u)))
      example.labels = fixture.whole_numbers(fmt::format("labels.{}", u));
  }
  return examples;
}

data::MicroBatch batch_of(const std::vector<data::Example>& examples) {
  std::vector<int64_t> places(examples.size());
  std::iota(places.begin(), places.end(), int64_t{0});
  device::StagingBuffer unused(0);
  return data::make_micro_batch(examples, places, at::kCPU, unused);
}

train::RunConfig config_of(const ModelFixture& fixture) {
  train::RunConfig config;
  config.model = models::read_hugging_face(fixture.folder()).options;
  config.model.wav2vec2.freeze_feature_encoder = false;
  // A checkpoint of pretraining has no steps to compare.
  if (fixture.scalars().contains("optimizer"))
    config.optimizer = optimizer_of(fixture.scalars().at("optimizer"));
  return config;
}

const models::DataShape kShape{.vocabulary = kVocabulary, .blank = 0};

class Wav2Vec2Oracle : public ::testing::TestWithParam<const char*> {
 protected:
  ModelFixture fixture_{std::string("wav2vec2/") + GetParam()};
};

TEST_P(Wav2Vec2Oracle, GivesTheSameLogitsAndLosses) {
  train::Learner learner(config_of(fixture_), kShape, at::kCPU);
  for (const std::string& note : models::load_hugging_face(fixture_.folder(), *learner.model))
    ADD_FAILURE() << note;
  auto& model = dynamic_cast<models::Wav2Vec2&>(*learner.model);
  const std::vector<data::Example> examples = examples_of(fixture_, "raw");
  const data::MicroBatch batch = batch_of(examples);
  EXPECT_LT(relative_error(model.logits(batch), fixture_.packed("logits")), kTolerance);

  const models::Model::Recognised recognised = model.recognise(batch);
  const nlohmann::json& losses = fixture_.scalars().at("losses");
  const auto by_utterance = losses.at("by_utterance").get<std::vector<double>>();
  for (size_t u = 0; u < by_utterance.size(); ++u) {
    EXPECT_NEAR(recognised.loss.loss[static_cast<int64_t>(u)].item<float>(), by_utterance[u],
                kTolerance * by_utterance[u]);
  }
  for (const auto& [name, reduction] : train::kReductions) {
    models::load_hugging_face(fixture_.folder(), *learner.model);
    const train::StepResult result = train::run_step(learner, examples, {.reduction = reduction});
    const double expected = losses.at(std::string(name));
    EXPECT_NEAR(result.loss, expected, kTolerance * expected) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Wav2Vec2Oracle,
                         ::testing::Values("base", "base_bias", "stable", "stable_nobias"),
                         [](const auto& test) { return std::string(test.param); });

class Wav2Vec2Training : public Wav2Vec2Oracle {
 protected:
  std::set<std::string> zero_gradients() const {
    return fixture_.scalars().at("zero_gradients").get<std::set<std::string>>();
  }
};

TEST_P(Wav2Vec2Training, GivesTheSameGradients) {
  const train::RunConfig config = config_of(fixture_);
  train::Learner learner(config, kShape, at::kCPU);
  models::load_hugging_face(fixture_.folder(), *learner.model);
  const std::vector<data::Example> examples = examples_of(fixture_, "raw");
  const data::MicroBatch batch = batch_of(examples);
  std::vector<int64_t> label_lengths;
  for (const data::Example& example : examples) label_lengths.push_back(std::ssize(example.labels));
  const std::vector<float> weights =
      kernels::ctc_weights(kernels::Reduction::kCtcMean, label_lengths);
  nn::Tape tape;
  learner.model->parameters().zero_gradients();
  learner.model->forward(batch, {}, weights, tape);
  learner.model->backward(batch, {}, tape);

  const std::set<std::string> zeros = zero_gradients();
  double largest = 0.0;
  for (const models::NamedTensor& named : learner.model->named_weights())
    largest = std::max(largest, gradient_of(*learner.model, named).abs().max().item<double>());
  for (const models::NamedTensor& named : learner.model->named_weights()) {
    const at::Tensor ours = as_in_file(named, gradient_of(*learner.model, named));
    if (zeros.contains(named.name) || !fixture_.has("gradients." + named.name)) {
      EXPECT_LT(ours.abs().max().item<double>(), 1e-6 * largest) << named.name;
    } else {
      EXPECT_LT(relative_error(ours, fixture_.tensor("gradients." + named.name)), kTolerance)
          << named.name;
    }
  }
}

TEST_P(Wav2Vec2Training, EndsInTheSameWeightsAfterFiveSteps) {
  for (const nn::Tier tier : {nn::Tier::kNone, nn::Tier::kBlock}) {
    train::Learner learner(config_of(fixture_), kShape, at::kCPU);
    models::load_hugging_face(fixture_.folder(), *learner.model);
    const std::vector<data::Example> examples = examples_of(fixture_, "raw");
    train::StepSettings settings{.tier = tier, .total_steps = 5};
    for (const nlohmann::json& loss : fixture_.scalars().at("step_losses")) {
      const train::StepResult result = train::run_step(learner, examples, settings);
      EXPECT_NEAR(result.loss, loss.get<double>(), kTolerance * loss.get<double>());
      ++settings.step;
    }
    const std::set<std::string> zeros = zero_gradients();
    for (const models::NamedTensor& named : learner.model->named_weights()) {
      // Adam makes steps of rounding errors where the gradient is zero.
      if (zeros.contains(named.name)) continue;
      EXPECT_LT(
          relative_error(as_in_file(named, named.tensor), fixture_.tensor("final." + named.name)),
          kTolerance)
          << named.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Wav2Vec2Training, ::testing::Values("base", "stable"),
                         [](const auto& test) { return std::string(test.param); });

// Quantizer and projections are left out, a head of the vocabulary's size is new.
TEST(Wav2Vec2Pretraining, BecomesACtcModel) {
  const ModelFixture fixture("wav2vec2/pretraining");
  train::RunConfig config = config_of(fixture);
  train::Learner learner(config, kShape, at::kCPU);
  const std::vector<std::string> notes =
      models::load_hugging_face(fixture.folder(), *learner.model);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_TRUE(notes[0].starts_with("2 tensors are new: lm_head.weight, lm_head.bias")) << notes[0];
  EXPECT_NE(notes[1].find("left out: project_hid"), std::string::npos) << notes[1];
  auto& model = dynamic_cast<models::Wav2Vec2&>(*learner.model);
  // The head's product of known hidden states gives known logits.
  const nn::Parameter* weight = model.parameters().find("head.weight");
  const at::Tensor expected = at::matmul(fixture.packed("encoded"), weight->value.t());
  EXPECT_LT(relative_error(model.logits(batch_of(examples_of(fixture, "raw"))), expected),
            kTolerance);
}

}  // namespace
}  // namespace sotto::test
