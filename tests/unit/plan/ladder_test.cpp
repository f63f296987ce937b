#include "sotto/plan/ladder.h"

#include <gtest/gtest.h>

#include "sotto/models/conformer/conformer.h"
#include "sotto/models/decoder_lm/decoder_lm.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "support/thrown.h"
#include "support/tiny_models.h"
#include "unit/plan/planner_fixture.h"

namespace sotto::plan {
namespace {

using nn::Tier;
using test::contains;
using test::message_of;
using train::Numerics;

class LadderTest : public PlannerTest {};

// A card without bf16 uses fp16; on a host with little memory nothing is offloaded.
TEST_F(LadderTest, LaddersUseOnlyWhatTheDeviceHas) {
  const auto changes = [&] {
    std::string all;
    request_.config.numerics = Numerics::kFp32;
    const data::ExampleList source({data::make_dry_example(4'000, test::kTinyShape.feature_dim, 9)},
                                   {40.0f});
    for (const Rung& rung : ladder_of(request_, source)) all += rung.to_string() + "\n";
    return all;
  };
  EXPECT_PRED2(contains, changes(), "--set numerics=bf16-lean (");
  EXPECT_PRED2(contains, changes(), "--set tier=host (");
  // For what is copied to the card, and not for inputs of layers.
  request_.budget.host_bytes = int64_t{6} << 20;
  EXPECT_FALSE(contains(changes(), "host"));
  EXPECT_PRED2(contains, changes(), "--set numerics=bf16-lean (");
  request_.target.capability = 75;
  EXPECT_PRED2(contains, changes(), "--set numerics=fp16 (");
  EXPECT_FALSE(contains(changes(), "bf16"));
}

TEST_F(LadderTest, SplittingKeepsTheResultExceptWithTrainedStatistics) {
  request_.config.adaptive_batching = false;
  request_.config.micro_batch = 4;
  for (const auto kind : {nn::InnerNormKind::kFrozenBatch, nn::InnerNormKind::kBatch}) {
    request_.config.model = models::ModelOptions::of_preset("conformer-s");
    auto& model = request_.config.model.as<models::ConformerOptions>();
    model.layers = 1;
    model.width = 16;
    model.hidden = 32;
    model.convolution_norm = kind;
    const std::vector<Rung> rungs = ladder_of(request_, source_);
    const auto split = std::ranges::find(rungs, "micro_batch", &Rung::key);
    ASSERT_NE(split, rungs.end());
    EXPECT_EQ(split->keeps_result, kind == nn::InnerNormKind::kFrozenBatch);
    EXPECT_EQ(contains(split->to_string(), "the same result"), split->keeps_result);
  }
}

// Half of a row may still exceed the user's max_frames.
TEST_F(LadderTest, LaddersRespectTheUsersMaxFrames) {
  request_.config = test::tiny_lm(true);
  request_.config.model.as<models::DecoderLmOptions>().max_tokens = 512;
  request_.config.max_frames = 64;
  request_.config.data.row_tokens = 256;
  request_.shape = test::kTextShape;
  const data::ExampleList rows(std::vector<data::Example>(64, data::make_dry_text(64)),
                               std::vector<float>(64, 64.0f));
  request_.open.max_frames = false;
  const auto last_key = [&] { return ladder_of(request_, rows).back().key; };
  EXPECT_NE(last_key(), "data.row_tokens");
  request_.open.max_frames = true;
  request_.config.data.row_tokens = 64;
  EXPECT_EQ(last_key(), "data.row_tokens");
  EXPECT_EQ(ladder_of(request_, rows).back().value, "32");
}

// No required rung is omitted: the user has to change fixed settings.
TEST_F(LadderTest, RefusalsStartFromTheSmallestCandidate) {
  request_.open.tier = request_.open.state = false;
  request_.config.tier = Tier::kNone;
  request_.config.model.as<models::TransformerCtcOptions>().width = 256;
  EXPECT_PRED2(contains, message_of<Infeasible>([&] { plan_in(1'000'000); }),
               "each in addition to those before it: --set tier=block (");
}

// Steps have at most as many parts as may be summed in bf16 gradients.
TEST_F(LadderTest, RungsMatchWhatPlansNeed) {
  request_.open.numerics = request_.open.tier = request_.open.state = false;
  request_.config.numerics = Numerics::kBf16Lean;
  request_.config.effective_batch.utterances = 48;
  request_.config.model.as<models::TransformerCtcOptions>().width = 256;
  const int64_t least = bytes_as_it_is(request_, source_);
  EXPECT_NO_THROW(plan_in(least));
  EXPECT_PRED2(contains, message_of<Infeasible>([&] { plan_in(least - (1 << 20)); }),
               "the smallest micro-batches that a step may have need");
}

}  // namespace
}  // namespace sotto::plan
