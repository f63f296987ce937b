// Conformer networks: sizes, what is refused, and utterances that one of the heads cannot use.
#include "sotto/models/conformer/conformer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "sotto/core/config/config.h"
#include "sotto/models/model_options.h"
#include "sotto/models/model_profile.h"
#include "support/thrown.h"

namespace sotto::models {
namespace {

using test::contains;
using test::message_of;

constexpr DataShape kShape{.vocabulary = 6, .blank = 0, .feature_dim = 9};

ModelOptions read_conformer(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), "preset=conformer-128");
  return read_overrides<ModelOptions>(overrides);
}

std::string conformer_refusal(const std::vector<std::string>& overrides) {
  return message_of<ConfigError>([&] {
    const ModelOptions options = read_conformer(overrides);
    options.check_effects({});
    options.make(kShape, {.device = at::kMeta});
  });
}

double million_parameters(const std::string& preset) {
  const ModelProfile profile = profile_model(ModelOptions::of_preset(preset), {.vocabulary = 32});
  return static_cast<double>(profile.parameters) / 1e6;
}

TEST(ConformerSizes, AreThoseOfThePresets) {
  EXPECT_NEAR(million_parameters("conformer-256"), 27.4, 0.1);
  EXPECT_NEAR(million_parameters("conformer-192"), 10.7, 0.1);
  EXPECT_NEAR(million_parameters("conformer-128"), 3.7, 0.05);
  EXPECT_EQ(profile_model(ModelOptions::of_preset("conformer-192"), {.vocabulary = 32}).width, 192);
}

TEST(ConformerSettings, AreRefusedIfTheyCannotBeBuilt) {
  EXPECT_PRED2(contains, conformer_refusal({"kernel=8"}), "a kernel of 8 frames");
  EXPECT_PRED2(contains, conformer_refusal({"heads=3"}),
               "a number of heads that divides the width");
  EXPECT_PRED2(contains, conformer_refusal({"subsampling_factor=3"}), "2, 4 or 8");
  EXPECT_PRED2(contains, conformer_refusal({"decoder_layers=0"}), "objective: ctc");
  EXPECT_PRED2(contains, conformer_refusal({"ctc_weight=1.5"}), "ctc_weight");
  EXPECT_PRED2(contains, conformer_refusal({"ctc_weight=1"}), "objective: ctc");
  EXPECT_PRED2(contains, conformer_refusal({"ctc_weight=0"}), "objective: attention");
}

TEST(ConformerSettings, OfAMissingHeadAreRefused) {
  EXPECT_PRED2(contains, conformer_refusal({"objective=ctc", "ctc_weight=0.5"}),
               "ctc_weight with objective ctc, which has no attention decoder");
  EXPECT_PRED2(contains, conformer_refusal({"objective=attention", "ctc_weight=0.5"}),
               "which has no CTC head");
  EXPECT_PRED2(contains, conformer_refusal({"objective=ctc", "decoder_layers=2"}),
               "decoder_layers");
  EXPECT_PRED2(contains, conformer_refusal({"objective=ctc", "label_smoothing=0.2"}),
               "label_smoothing");
  EXPECT_PRED2(contains, conformer_refusal({"preset=conformer-s", "decoder_layers=6"}),
               "decoder_layers");
  for (const char* preset : {"conformer-192", "conformer-s", "conformer-l"})
    EXPECT_NO_THROW(
        read_conformer({std::string("preset=") + preset, "objective=ctc"}).check_effects({}));
}

struct Sample {
  int64_t frames = 0;
  std::vector<int32_t> labels;
};

data::MicroBatch batch_of(const std::vector<Sample>& samples, const Model& model) {
  std::vector<data::Example> examples;
  for (const Sample& sample : samples) {
    const at::Tensor values = at::randn({sample.frames, kShape.feature_dim});
    const float* data = values.const_data_ptr<float>();
    examples.push_back({.utterance = std::ssize(examples),
                        .values = {data, data + values.numel()},
                        .rows = sample.frames,
                        .feature_dim = kShape.feature_dim,
                        .labels = sample.labels});
  }
  std::vector<int64_t> indices(examples.size());
  std::iota(indices.begin(), indices.end(), int64_t{0});
  device::HostMemory host(at::kCPU);
  device::StagingBuffer staging(host);
  return data::make_micro_batch(examples, indices, staging, {.decoder = model.outline().decoder});
}

Losses losses_of(const std::vector<std::string>& overrides, const std::vector<Sample>& samples) {
  at::manual_seed(3);
  std::vector<std::string> all = {"layers=1",  "width=16",         "heads=2",
                                  "hidden=24", "decoder_layers=1", "kernel=31"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const std::unique_ptr<Model> model = read_conformer(all).make(kShape, {});
  const data::MicroBatch batch = batch_of(samples, *model);
  nn::Tape tape;
  const std::vector<float> weights(samples.size(), 1.0f);
  Losses losses = model->forward(batch, {}, weights, tape);
  model->backward(batch, {}, tape);
  for (const nn::Parameter& parameter : model->parameters().parameters())
    EXPECT_TRUE(parameter.gradient.isfinite().all().item<bool>()) << parameter.spec.name;
  return losses;
}

// Three frames, fewer than the subsampling joins and than the kernel sees.
TEST(ConformerUtterances, MayBeShorterThanSubsamplingAndKernel) {
  const Losses losses = losses_of({}, {{3, {2}}, {40, {1, 2, 3}}});
  EXPECT_TRUE(losses.infeasible.empty());
  ASSERT_EQ(losses.terms.size(), 2);
  for (const at::Tensor& term : losses.terms) EXPECT_TRUE(term.gt(0.0).all().item<bool>());
}

TEST(ConformerUtterances, ThatCannotBeAlignedKeepTheirAttentionTerm) {
  const Losses losses = losses_of({}, {{8, {1, 2, 3, 4}}, {40, {1}}});
  EXPECT_EQ(losses.infeasible, std::vector<int64_t>{0});
  EXPECT_EQ(losses.terms[0][0].item<float>(), 0.0f);
  EXPECT_GT(losses.terms[1][0].item<float>(), 0.0f);
  const Losses alone =
      losses_of({"objective=ctc", "decoder_layers=3"}, {{8, {1, 2, 3, 4}}, {40, {1}}});
  EXPECT_EQ(alone.infeasible, std::vector<int64_t>{0});
  EXPECT_EQ(alone.terms.size(), 1);
}

TEST(ConformerUtterances, MayHaveNoLabels) {
  for (const char* objective : {"joint", "attention"}) {
    const Losses losses =
        losses_of({std::string("objective=") + objective}, {{20, {}}, {40, {1, 2}}});
    EXPECT_TRUE(losses.infeasible.empty());
    // The decoder still learns that the sentence ends.
    EXPECT_GT(losses.terms.back()[0].item<float>(), 0.0f);
  }
}

}  // namespace
}  // namespace sotto::models
