#include "sotto/plan/paper_estimate.h"

#include <gtest/gtest.h>

#include "sotto/plan/usual_data.h"

namespace sotto::plan {
namespace {

// Computed by hand: 95 of 100 utterances have at most 16.09 s, 804 frames.
TEST(PaperEstimate, IsAlphaTimesLengthWidthAndLayers) {
  train::RunConfig config;
  config.model = models::ModelOptions::of_preset("wav2vec2-base");
  const models::DataShape shape = usual_shape(config);
  const data::ExampleList source = usual_data(config);
  const PaperEstimate estimate = estimate_as_papers(config, shape, source, 8, {});
  EXPECT_EQ(estimate.frames, 804);
  EXPECT_EQ(estimate.activation_bytes, std::llround(1.2 * 804 * 768 * 12 * 8 * 4));
  EXPECT_NEAR(static_cast<double>(estimate.state_bytes), 16.0 * 94.4e6, 16.0 * 0.2e6);
  const PaperEstimate shorter = estimate_as_papers(config, shape, source, 8, {.percentile = 50.0});
  EXPECT_LT(shorter.frames, estimate.frames);
  EXPECT_DOUBLE_EQ(estimate.miss(estimate.total()), 0.0);
  EXPECT_DOUBLE_EQ(estimate.miss(estimate.total() / 2), 1.0);
}

TEST(PaperEstimate, Counts16BitCopiesOfWeights) {
  train::RunConfig config;
  config.model = models::ModelOptions::of_preset("wav2vec2-base");
  const models::DataShape shape = usual_shape(config);
  const data::ExampleList source = usual_data(config);
  const PaperEstimate single = estimate_as_papers(config, shape, source, 8, {});
  config.numerics = train::Numerics::kBf16Exact;
  const PaperEstimate half = estimate_as_papers(config, shape, source, 8, {});
  EXPECT_EQ(2 * half.activation_bytes, single.activation_bytes);
  EXPECT_EQ(half.state_bytes * 16, single.state_bytes * 18);
}

}  // namespace
}  // namespace sotto::plan
