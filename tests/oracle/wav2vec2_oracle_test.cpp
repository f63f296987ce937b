// wav2vec2 against Hugging Face's: each utterance alone there, all of them packed here.
#include "oracle/wav2vec2_fixture.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/models/wav2vec2/wav2vec2.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"

namespace sotto::test {
namespace wav2vec2_oracle_test {

class Wav2Vec2Oracle : public ::testing::TestWithParam<const char*> {
 protected:
  Wav2Vec2Fixture fixture_{GetParam()};
};

TEST_P(Wav2Vec2Oracle, GivesTheSameLogitsAndLosses) {
  train::Learner learner(fixture_.config(), Wav2Vec2Fixture::kShape, at::kCPU);
  for (const std::string& note : models::load_hugging_face(fixture_.folder(), *learner.model))
    ADD_FAILURE() << note;
  auto& model = dynamic_cast<models::Wav2Vec2&>(*learner.model);
  const std::vector<data::Example> examples = fixture_.examples();
  const data::MicroBatch batch = packed_batch(examples, at::kCPU);
  EXPECT_LT(relative_error(model.logits(batch), fixture_.packed("logits")), kNetworkTolerance);

  const models::Recognition recognised = model.recognise(batch);
  const nlohmann::json& losses = fixture_.scalars().at("losses");
  const auto by_utterance = losses.at("by_utterance").get<std::vector<double>>();
  for (size_t u = 0; u < by_utterance.size(); ++u) {
    EXPECT_NEAR(recognised.losses.terms.front()[static_cast<int64_t>(u)].item<float>(),
                by_utterance[u], kNetworkTolerance * by_utterance[u]);
  }
  for (const auto& [name, reduction] : train::kReductions) {
    models::load_hugging_face(fixture_.folder(), *learner.model);
    const train::StepResult result = train::run_step(learner, examples, {.reduction = reduction});
    const double expected = losses.at(std::string(name));
    EXPECT_NEAR(result.loss, expected, kNetworkTolerance * expected) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Wav2Vec2Oracle,
                         ::testing::Values("base", "base_bias", "stable", "stable_nobias"),
                         [](const auto& test) { return std::string(test.param); });

class Wav2Vec2Training : public Wav2Vec2Oracle {};

TEST_P(Wav2Vec2Training, GivesTheSameGradients) {
  train::Learner learner(fixture_.config(), Wav2Vec2Fixture::kShape, at::kCPU);
  models::load_hugging_face(fixture_.folder(), *learner.model);
  expect_gradients(learner, fixture_);
}

TEST_P(Wav2Vec2Training, EndsInTheSameWeightsAfterFiveSteps) {
  for (const nn::Tier tier : {nn::Tier::kNone, nn::Tier::kBlock}) {
    train::Learner learner(fixture_.config(), Wav2Vec2Fixture::kShape, at::kCPU);
    models::load_hugging_face(fixture_.folder(), *learner.model);
    expect_five_steps(learner, fixture_, {.tier = tier});
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Wav2Vec2Training, ::testing::Values("base", "stable"),
                         [](const auto& test) { return std::string(test.param); });

// Quantizer and projections are left out, a head of the vocabulary's size is new.
TEST(Wav2Vec2Pretraining, BecomesACtcModel) {
  const Wav2Vec2Fixture fixture("pretraining");
  train::RunConfig config = fixture.config();
  train::Learner learner(config, Wav2Vec2Fixture::kShape, at::kCPU);
  const std::vector<std::string> notes =
      models::load_hugging_face(fixture.folder(), *learner.model);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_TRUE(notes[0].starts_with("2 tensors are new: lm_head.weight, lm_head.bias")) << notes[0];
  EXPECT_NE(notes[1].find("skipped: project_hid"), std::string::npos) << notes[1];
  auto& model = dynamic_cast<models::Wav2Vec2&>(*learner.model);
  // The head's product of known hidden states gives known logits.
  const nn::Parameter* weight = model.parameters().find("head.weight");
  const at::Tensor expected = at::matmul(fixture.packed("encoded"), weight->value.t());
  EXPECT_LT(relative_error(model.logits(packed_batch(fixture.examples(), at::kCPU)), expected),
            kNetworkTolerance);
}

// 8 kHz and no normalisation from processor_config.json, the blank, digraphs and the size of the
// head from the tokenizer's files: as the processor of transformers and its network have it.
TEST(Wav2Vec2Processor, FollowsItsFiles) {
  const Wav2Vec2Fixture fixture("processor");
  const train::RunConfig config = fixture.config();
  EXPECT_EQ(config.model.sample_rate(), 8'000);
  EXPECT_FALSE(config.model.as<models::Wav2Vec2Options>().normalise);
  const models::DataShape shape = models::shape_of_hugging_face(fixture.folder());
  EXPECT_EQ(shape.vocabulary, 16);
  EXPECT_EQ(shape.blank, 2);
  train::Learner learner(config, shape, at::kCPU);
  for (const std::string& note : models::load_hugging_face(fixture.folder(), *learner.model))
    ADD_FAILURE() << note;
  auto& model = dynamic_cast<models::Wav2Vec2&>(*learner.model);
  EXPECT_LT(relative_error(model.logits(packed_batch(fixture.examples(), at::kCPU)),
                           fixture.packed("logits")),
            kNetworkTolerance);

  const data::Tokenizer tokenizer =
      data::Tokenizer::read(fixture.folder(), {.unicode = data::UnicodeForm::kNone});
  EXPECT_EQ(tokenizer.size(), shape.vocabulary);
  EXPECT_EQ(tokenizer.blank(), shape.blank);
  for (const nlohmann::json& one : fixture.scalars().at("texts"))
    EXPECT_EQ(tokenizer.encode(one.at("text").get<std::string>()).labels,
              one.at("labels").get<std::vector<int32_t>>())
        << one.at("text");
}

}  // namespace wav2vec2_oracle_test
}  // namespace sotto::test
