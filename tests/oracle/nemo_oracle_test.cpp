// `.nemo` archives against transformers' networks with the same weights: each utterance alone
// there, all of them packed here, from samples to logits.
#include <gtest/gtest.h>

#include "oracle/hugging_face_fixture.h"
#include "oracle/lattice_check.h"
#include "sotto/models/hub/nemo.h"
#include "support/nemo_fixture.h"

namespace sotto::test {
namespace nemo_oracle_test {

class NemoOracle : public ::testing::TestWithParam<const char*> {
 protected:
  // Samples and labels of the utterances.
  HuggingFaceFixture fixture_{"parakeet/ctc"};
  ModelFixture expected_{"nemo"};
};

TEST_P(NemoOracle, GivesTheSameLogits) {
  const std::filesystem::path path = nemo_fixture(GetParam());
  train::RunConfig config;
  config.model = models::read_hugging_face(path).options;
  train::Learner learner(config, models::shape_of_hugging_face(path), at::kCPU);
  EXPECT_TRUE(models::load_hugging_face(path, *learner.model).empty());
  const models::Recognition recognised = learner.model->recognise(
      packed_batch(fixture_.examples(), at::kCPU, learner.model->outline().decoder));
  const std::string logits = fmt::format("{}.logits", GetParam());
  if (recognised.frames) {
    EXPECT_LT(relative_error(recognised.frames->logits, expected_.packed(logits)),
              kNetworkTolerance);
  } else {
    expect_lattice(*recognised.lattice, fixture_,
                   [&](int64_t u) { return expected_.tensor(fmt::format("{}.{}", logits, u)); });
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, NemoOracle, ::testing::Values("ctc", "rnnt", "tdt"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace nemo_oracle_test
}  // namespace sotto::test
