// Parakeet against Hugging Face's: each utterance alone there, all of them packed here, from
// samples to logits.
#include <gtest/gtest.h>

#include "oracle/hugging_face_fixture.h"
#include "oracle/lattice_check.h"
#include "sotto/decode/decoding.h"
#include "sotto/models/parakeet/parakeet_options.h"

namespace sotto::test {
namespace parakeet_oracle_test {

constexpr models::DataShape kParakeetShape{.vocabulary = 12, .blank = 11};

class ParakeetOracle : public ::testing::TestWithParam<const char*> {
 protected:
  // A pointer, because a learner does not move.
  std::unique_ptr<train::Learner> make_learner() const {
    auto learner =
        std::make_unique<train::Learner>(fixture_.config_of_folder(), kParakeetShape, at::kCPU);
    for (const std::string& note : models::load_hugging_face(fixture_.folder(), *learner->model))
      ADD_FAILURE() << note;
    return learner;
  }

  models::Recognition recognise(train::Learner& learner) const {
    return learner.model->recognise(
        packed_batch(fixture_.examples(), at::kCPU, learner.model->outline().decoder));
  }

  HuggingFaceFixture fixture_{std::string("parakeet/") + GetParam()};
};

TEST_P(ParakeetOracle, GivesTheSameLogitsAndLosses) {
  const models::DataShape shape = models::shape_of_hugging_face(fixture_.folder());
  EXPECT_EQ(shape.vocabulary, kParakeetShape.vocabulary);
  EXPECT_EQ(shape.blank, kParakeetShape.blank);
  const std::unique_ptr<train::Learner> learner = make_learner();
  const models::Recognition recognised = recognise(*learner);
  if (recognised.frames) {
    EXPECT_LT(relative_error(recognised.frames->logits, fixture_.packed("logits")),
              kNetworkTolerance);
  } else {
    expect_lattice(*recognised.lattice, fixture_,
                   [&](int64_t u) { return fixture_.tensor(fmt::format("logits.{}", u)); });
  }
  const auto losses = fixture_.scalars().at("losses").at("by_utterance").get<std::vector<double>>();
  for (size_t u = 0; u < losses.size(); ++u) {
    EXPECT_NEAR(recognised.losses.terms.front()[static_cast<int64_t>(u)].item<float>(), losses[u],
                kNetworkTolerance * losses[u]);
  }
}

TEST_P(ParakeetOracle, GivesTheSameGradients) {
  expect_gradients(*make_learner(), fixture_);
}

TEST_P(ParakeetOracle, EndsInTheSameWeightsAfterFiveSteps) {
  for (const nn::Tier tier : {nn::Tier::kNone, nn::Tier::kBlock}) {
    // Differences between processors in the features, which are fp32 there too.
    expect_five_steps(*make_learner(), fixture_,
                      {.tier = tier, .tolerance = 5.0 * kNetworkTolerance});
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, ParakeetOracle,
                         ::testing::Values("ctc", "ctc_no_biases", "rnnt", "tdt"),
                         [](const auto& test) { return std::string(test.param); });

// A greedy search finds what transformers' generate() finds of each utterance alone.
class ParakeetGreedyOracle : public ParakeetOracle {};

TEST_P(ParakeetGreedyOracle, FindsTheSameLabels) {
  const std::unique_ptr<train::Learner> learner = make_learner();
  const models::Recognition recognised = recognise(*learner);
  const auto theirs = fixture_.scalars().at("greedy").get<std::vector<std::vector<int32_t>>>();
  const std::vector<decode::Labels> ours = decode::find_labels(recognised);
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t u = 0; u < theirs.size(); ++u) {
    std::vector<int32_t> labels;
    for (const auto& label : ours[u]) labels.push_back(label.label);
    EXPECT_EQ(labels, theirs[u]);
  }
}

INSTANTIATE_TEST_SUITE_P(Transducers, ParakeetGreedyOracle, ::testing::Values("rnnt", "tdt"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace parakeet_oracle_test
}  // namespace sotto::test
