// The decoder language model against its PyTorch twin, which is held against GPT-2 where it is
// made.
#include <numeric>

#include "oracle/model_oracle.h"
#include "oracle/optimizer_json.h"
#include "sotto/data/micro_batch.h"
#include "sotto/models/decoder_lm.h"
#include "sotto/train/step.h"

namespace sotto::test {
namespace {

constexpr double kTolerance = 1e-4;

class DecoderLmOracle : public ::testing::TestWithParam<const char*> {
 protected:
  train::RunConfig config() const {
    const nlohmann::json& shape = fixture_.scalars().at("shape");
    train::RunConfig config;
    config.model = models::ModelOptions::of_preset("decoder-lm");
    models::DecoderLmOptions& model = config.model.decoder_lm;
    model.layers = shape.at("layers");
    model.width = shape.at("width");
    model.heads = shape.at("heads");
    model.hidden = shape.at("hidden");
    model.dropout = 0.0;
    model.positions = value_of(shape.at("positions").get<std::string>(), nn::kPositionKinds);
    model.max_tokens = shape.at("max_frames");
    model.tied = shape.at("tied");
    model.label_smoothing = fixture_.scalars().at("label_smoothing");
    config.optimizer = optimizer_of(fixture_.scalars().at("optimizer"));
    return config;
  }

  models::DataShape shape() const {
    return {.vocabulary = fixture_.scalars().at("shape").at("vocabulary")};
  }

  std::vector<data::Example> examples() const {
    std::vector<data::Example> examples;
    for (int64_t u = 0; fixture_.has(fmt::format("tokens.{}", u)); ++u) {
      data::Example& example = examples.emplace_back();
      example.utterance = u;
      example.tokens = fixture_.whole_numbers(fmt::format("tokens.{}", u));
      example.labels = fixture_.whole_numbers(fmt::format("targets.{}", u));
      example.rows = std::ssize(example.tokens);
    }
    return examples;
  }

  data::MicroBatch batch() const {
    const std::vector<data::Example> all = examples();
    std::vector<int64_t> places(all.size());
    std::iota(places.begin(), places.end(), int64_t{0});
    device::StagingBuffer unused(0);
    return data::make_micro_batch(all, places, at::kCPU, unused);
  }

  void load(models::Model& model) const {
    models::load_tensors(fixture_.folder() / "model.safetensors", model.named_weights());
  }

  // Of q, k and v in one vector the k's has no gradient but rounding errors.
  at::Tensor without_zeros(const std::string& name, const at::Tensor& values) const {
    const nlohmann::json& zeros = fixture_.scalars().at("zero_gradients");
    if (!zeros.contains(name)) return values;
    const int64_t first = zeros.at(name)[0], end = zeros.at(name)[1];
    return at::cat({values.narrow(0, 0, first), values.narrow(0, end, values.size(0) - end)});
  }

  ModelFixture fixture_{std::string("decoder_lm/") + GetParam()};
};

TEST_P(DecoderLmOracle, GivesTheSameLogitsAndLosses) {
  train::Learner learner(config(), shape(), at::kCPU);
  load(*learner.model);
  auto& model = dynamic_cast<models::DecoderLm&>(*learner.model);
  EXPECT_LT(relative_error(model.logits(batch()), fixture_.packed("logits")), kTolerance);
  const nlohmann::json& losses = fixture_.scalars().at("losses");
  const auto by_row = losses.at("by_row").get<std::vector<double>>();
  const at::Tensor ours = model.recognise(batch()).loss.loss;
  for (size_t u = 0; u < by_row.size(); ++u)
    EXPECT_NEAR(ours[static_cast<int64_t>(u)].item<float>(), by_row[u], kTolerance * by_row[u]);
  for (const auto& [name, reduction] : train::kReductions) {
    if (!losses.contains(std::string(name))) continue;
    load(*learner.model);
    const train::StepResult result = train::run_step(learner, examples(), {.reduction = reduction});
    const double expected = losses.at(std::string(name));
    EXPECT_NEAR(result.loss, expected, kTolerance * expected) << name;
  }
}

TEST_P(DecoderLmOracle, GivesTheSameGradients) {
  train::Learner learner(config(), shape(), at::kCPU);
  load(*learner.model);
  const float weight = 1.0f / fixture_.scalars().at("num_targets").get<float>();
  nn::Tape tape;
  learner.model->parameters().zero_gradients();
  learner.model->forward(batch(), {}, std::vector<float>(3, weight), tape);
  learner.model->backward(batch(), {}, tape);
  for (const nn::Parameter& parameter : learner.model->parameters().parameters()) {
    const std::string& name = parameter.spec.name;
    EXPECT_LT(relative_error(without_zeros(name, parameter.gradient),
                             without_zeros(name, fixture_.tensor("gradients." + name))),
              kTolerance)
        << name;
  }
}

TEST_P(DecoderLmOracle, EndsInTheSameWeightsAfterFiveSteps) {
  train::Learner learner(config(), shape(), at::kCPU);
  load(*learner.model);
  train::StepSettings settings{.reduction = kernels::Reduction::kTokens,
                               .tier = nn::Tier::kBlock,
                               .total_steps = 5,
                               .limits = {.max_frames = 10}};
  for (const nlohmann::json& loss : fixture_.scalars().at("step_losses")) {
    EXPECT_NEAR(train::run_step(learner, examples(), settings).loss, loss.get<double>(),
                kTolerance * loss.get<double>());
    ++settings.step;
  }
  for (const nn::Parameter& parameter : learner.model->parameters().parameters()) {
    const std::string& name = parameter.spec.name;
    EXPECT_LT(relative_error(without_zeros(name, parameter.value),
                             without_zeros(name, fixture_.tensor("final." + name))),
              kTolerance)
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, DecoderLmOracle,
                         ::testing::Values("sinusoidal", "learned_tied", "smoothing"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace sotto::test
