// Whisper against Hugging Face's: each utterance alone there, all of them packed here, from samples
// to logits, with the silence that fills the window.
#include <gtest/gtest.h>

#include "oracle/hugging_face_fixture.h"
#include "sotto/decode/decoding.h"
#include "sotto/models/whisper/whisper.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::test {
namespace whisper_oracle_test {

constexpr models::DataShape kWhisperShape{.vocabulary = 40, .blank = 3};

class WhisperOracle : public ::testing::TestWithParam<const char*> {
 protected:
  // A pointer, because a learner does not move.
  std::unique_ptr<train::Learner> make_learner() const {
    train::RunConfig config = fixture_.config_of_folder();
    config.model.as<models::WhisperOptions>().label_smoothing =
        fixture_.scalars().at("label_smoothing");
    auto learner = std::make_unique<train::Learner>(config, kWhisperShape, at::kCPU);
    for (const std::string& note : models::load_hugging_face(fixture_.folder(), *learner->model))
      ADD_FAILURE() << note;
    return learner;
  }

  data::MicroBatch batch(const train::Learner& learner) const {
    return packed_batch(fixture_.examples(), at::kCPU, learner.model->outline().decoder);
  }

  void expect_losses(const at::Tensor& ours, const char* key) const {
    const auto theirs = fixture_.scalars().at(key).get<std::vector<double>>();
    ASSERT_EQ(ours.size(0), std::ssize(theirs));
    for (size_t u = 0; u < theirs.size(); ++u) {
      EXPECT_NEAR(ours[static_cast<int64_t>(u)].item<float>(), theirs[u],
                  kNetworkTolerance * theirs[u])
          << key << " of utterance " << u;
    }
  }

  HuggingFaceFixture fixture_{std::string("whisper/") + GetParam()};
};

TEST_P(WhisperOracle, GivesTheSameLogitsAndLosses) {
  const models::DataShape shape = models::shape_of_hugging_face(fixture_.folder());
  EXPECT_EQ(shape.vocabulary, kWhisperShape.vocabulary);
  EXPECT_EQ(shape.blank, kWhisperShape.blank);
  const std::unique_ptr<train::Learner> learner = make_learner();
  auto& network = dynamic_cast<models::Whisper&>(*learner->model);
  EXPECT_LT(relative_error(network.logits(batch(*learner)), fixture_.packed("logits")),
            kNetworkTolerance);
  // An evaluation does not smooth labels, training does.
  expect_losses(network.recognise(batch(*learner)).losses.terms.front(), "losses");
  nn::Tape tape;
  const std::vector<float> weights(fixture_.examples().size(), 1.0f);
  expect_losses(network.forward(batch(*learner), {}, weights, tape).terms.front(), "smoothed");
}

TEST_P(WhisperOracle, GivesTheSameGradients) {
  expect_gradients(*make_learner(), fixture_, models::Reduction::kTokens);
}

TEST_P(WhisperOracle, EndsInTheSameWeightsAfterFiveSteps) {
  for (const nn::Tier tier : {nn::Tier::kNone, nn::Tier::kBlock}) {
    // Features are fp32 there too.
    expect_five_steps(*make_learner(), fixture_,
                      {.tier = tier,
                       .tolerance = 5.0 * kNetworkTolerance,
                       .reduction = models::Reduction::kTokens});
  }
}

TEST_P(WhisperOracle, HasThePositionsOfANewNetwork) {
  const train::Learner fresh(fixture_.config_of_folder(), kWhisperShape, at::kCPU);
  const std::unique_ptr<train::Learner> loaded = make_learner();
  const auto positions_in = [](const train::Learner& learner) {
    return learner.model->parameters().find("positions.weight")->value;
  };
  // Theirs are computed in fp32: angles of up to 50 have an error of 2e-6.
  EXPECT_LT(relative_error(positions_in(fresh), positions_in(*loaded)), 1e-5);
}

TEST_P(WhisperOracle, FindsTheSameGreedyTranscripts) {
  const std::unique_ptr<train::Learner> learner = make_learner();
  const models::Recognition recognised = learner->model->recognise(batch(*learner));
  const auto theirs = fixture_.scalars().at("greedy").get<std::vector<std::vector<int32_t>>>();
  const std::vector<decode::Labels> ours = decode::find_labels(recognised);
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t u = 0; u < theirs.size(); ++u) {
    std::vector<int32_t> labels;
    for (const auto& label : ours[u]) labels.push_back(label.label);
    // The first utterance has fewer frames than they have tokens: its limit is its own length.
    const auto frames = static_cast<size_t>(recognised.scorer->num_frames()[u]);
    std::vector<int32_t> expected = theirs[u];
    expected.resize(std::min(expected.size(), frames));
    EXPECT_EQ(labels, expected) << "utterance " << u;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, WhisperOracle, ::testing::Values("mel80", "mel128"),
                         [](const auto& test) { return std::string(test.param); });

// A checkpoint in OpenAI's format, of English alone, in fp16.
class OpenAiFile : public ::testing::Test {
 protected:
  ModelFixture fixture_{"whisper/openai"};
  std::filesystem::path path_ = fixture_.folder() / "tiny.pt";
};

TEST_F(OpenAiFile, HasTheSizesOfItsDims) {
  const auto& options = models::read_hugging_face(path_).options.as<models::WhisperOptions>();
  EXPECT_EQ(options.width, 4);
  EXPECT_EQ(options.hidden, 16);
  EXPECT_EQ(options.heads, 2);
  EXPECT_EQ(options.decoder_heads, 1);
  EXPECT_EQ(options.layers, 1);
  EXPECT_EQ(options.decoder_layers, 2);
  EXPECT_EQ(options.positions, 50);
  EXPECT_EQ(options.max_tokens, 12);
  EXPECT_FALSE(options.tokens.multilingual);
  EXPECT_EQ(options.tokens.start, 50'257);
  EXPECT_EQ(models::find_model_folder(path_.string()), path_);
}

TEST_F(OpenAiFile, GivesTheLossOfTheSameNetwork) {
  const std::unique_ptr<models::Model> network =
      models::read_hugging_face(path_).options.make(models::shape_of_hugging_face(path_), {});
  EXPECT_TRUE(models::load_hugging_face(path_, *network).empty());
  const at::Tensor raw = fixture_.tensor("raw.0").contiguous();
  const float* first = raw.const_data_ptr<float>();
  const std::vector<data::Example> examples = {{.values = {first, first + raw.numel()},
                                                .rows = raw.numel(),
                                                .labels = fixture_.whole_numbers("labels.0")}};
  const models::Recognition recognised =
      network->recognise(packed_batch(examples, at::kCPU, network->outline().decoder));
  const double loss = fixture_.scalars().at("losses").at(0);
  EXPECT_NEAR(recognised.losses.terms.front()[0].item<float>(), loss, kNetworkTolerance * loss);
}

TEST_F(OpenAiFile, WithoutDimsIsRefused) {
  EXPECT_PRED2(contains, message_of<DataError>([&] {
                 const TempFolder folder;
                 std::filesystem::copy_file(
                     fixture_folder() / "wav2vec2/pretraining/pytorch_model.bin",
                     folder.path() / "other.pt");
                 models::read_hugging_face(folder.path() / "other.pt");
               }),
               "no dims.n_mels");
}

}  // namespace whisper_oracle_test
}  // namespace sotto::test
