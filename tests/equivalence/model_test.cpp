// Whole networks: what memory features decide must not show in losses and gradients, with dropout
// and masking on.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/models/decoder_lm/decoder_lm.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"
#include "sotto/train/step/step.h"
#include "support/tiny_models.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace {

using nn::Tier;

struct Outcome {
  std::vector<float> losses;  // in the order of the examples
  std::vector<at::Tensor> gradients;
};

// Forward and backward of the examples in packs of the given places.
Outcome run(const TinyModel& tiny, const std::vector<std::vector<int64_t>>& packs,
            const std::vector<Tier>& tiers = {}) {
  const std::vector<data::Example> examples = tiny.examples(6, 3);
  const auto model = train::make_model(tiny.config, tiny.shape, at::kCPU, /*trains=*/true);
  model->parameters().zero_gradients();
  Outcome outcome{.losses = std::vector<float>(examples.size()), .gradients = {}};
  device::HostMemory host(at::kCPU);
  device::StagingBuffer unused(host);
  for (const std::vector<int64_t>& indices : packs) {
    const data::MicroBatch batch =
        data::make_micro_batch(examples, indices, unused, {.decoder = model->outline().decoder});
    std::vector<float> weights;
    for (const int64_t index : indices) weights.push_back(0.5f + 0.1f * static_cast<float>(index));
    nn::HostTape on_host(host);
    nn::Tape tape(tiers, &on_host);
    const nn::StepContext step{.seed = 5, .step = 9};
    const models::Losses losses = model->forward(batch, step, weights, tape);
    model->backward(batch, step, tape);
    EXPECT_EQ(tape.num_open(), 0) << "tapes that no backward closed";
    for (const at::Tensor& term : losses.terms) {
      for (size_t i = 0; i < indices.size(); ++i)
        outcome.losses[static_cast<size_t>(indices[i])] +=
            term[static_cast<int64_t>(i)].item<float>();
    }
  }
  for (const nn::Parameter& parameter : model->parameters().parameters())
    outcome.gradients.push_back(parameter.gradient.defined() ? parameter.gradient.clone()
                                                             : at::zeros({1}));
  return outcome;
}

// Where all matrices have bf16 gradients, those are the fp32 ones rounded once: kernels that add
// up in fp32 do so apart.
class Bf16Gradients : public ::testing::TestWithParam<TinyModel> {};

const std::vector<std::vector<int64_t>> kWhole = {{0, 1, 2, 3, 4, 5}};

void expect_same(const Outcome& a, const Outcome& b, const std::string& what) {
  for (size_t i = 0; i < a.losses.size(); ++i)
    EXPECT_NEAR(a.losses[i], b.losses[i], 1e-5 * std::abs(b.losses[i])) << what;
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    EXPECT_LT((a.gradients[i] - b.gradients[i]).abs().max().item<double>(),
              1e-5 * std::max(1e-2, b.gradients[i].abs().max().item<double>()))
        << what << ", parameter " << i;
  }
}

// What plans say of such a network must be true.
void expect_other_losses(const Outcome& a, const Outcome& b) {
  for (size_t i = 0; i < a.losses.size(); ++i)
    EXPECT_GT(std::abs(a.losses[i] - b.losses[i]), 1e-3 * std::abs(b.losses[i])) << i;
}

class Models : public ::testing::TestWithParam<TinyModel> {};

TEST_P(Models, GiveTheSameBitsWithAnyTierInAnyLayer) {
  const Outcome kept = run(GetParam(), kWhole);
  for (const auto& [name0, tier0] : nn::kTiers) {
    for (const auto& [name1, tier1] : nn::kTiers) {
      // What stands around the blocks has the tier of the second layer.
      const Outcome mixed = run(GetParam(), kWhole, {tier0, tier1, tier1, tier1, tier1});
      EXPECT_EQ(mixed.losses, kept.losses) << name0 << ", " << name1;
      for (size_t i = 0; i < kept.gradients.size(); ++i)
        EXPECT_TRUE(at::equal(mixed.gradients[i], kept.gradients[i]))
            << name0 << ", " << name1 << ", parameter " << i;
    }
  }
}

TEST_P(Models, GiveTheSameResultInAnyOrderAndSplit) {
  const Outcome whole = run(GetParam(), kWhole);
  expect_same(run(GetParam(), {{5, 2, 0, 4, 1, 3}}), whole, "another order");
  if (GetParam().depends_on_split()) {
    expect_other_losses(run(GetParam(), {{3, 1}, {0}, {5, 4, 2}}), whole);
    return;
  }
  expect_same(run(GetParam(), {{3, 1}, {0}, {5, 4, 2}}), whole, "three packs");
  expect_same(run(GetParam(), {{0}, {1}, {2}, {3}, {4}, {5}}), whole, "each alone");
}

TEST_P(Bf16Gradients, AreRoundedFp32Gradients) {
  TinyModel tiny = GetParam();
  tiny.config.numerics = train::Numerics::kBf16Exact;
  tiny.config.precision.small_below = 1;
  const Outcome whole = run(tiny, kWhole);
  tiny.config.precision.gradients = at::kBFloat16;
  const Outcome half = run(tiny, kWhole);
  EXPECT_EQ(half.losses, whole.losses);
  size_t num_half = 0;
  for (size_t i = 0; i < whole.gradients.size(); ++i) {
    num_half += half.gradients[i].scalar_type() == at::kBFloat16 ? 1 : 0;
    EXPECT_LE(relative_error(half.gradients[i], whole.gradients[i]), kBf16GradientTolerance) << i;
  }
  EXPECT_GE(num_half, 10u);
}

INSTANTIATE_TEST_SUITE_P(All, Bf16Gradients, ::testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(All, Models, ::testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test.param.name; });

TEST(Wav2Vec2Pieces, GiveTheSameResultAtAnySize) {
  for (const bool is_stable : {false, true}) {
    TinyModel tiny = tiny_models()[is_stable ? 1 : 0];
    tiny.config.model.as<models::Wav2Vec2Options>().piece_frames = 100'000;
    const Outcome whole = run(tiny, kWhole);
    for (const int64_t frames : {1, 2, 7, 30}) {
      tiny.config.model.as<models::Wav2Vec2Options>().piece_frames = frames;
      expect_same(run(tiny, kWhole), whole, fmt::format("{} frames a piece", frames));
    }
  }
}

// Masks and dropout must have an effect, or the tests above would prove nothing.
TEST(Wav2Vec2, MasksDifferBetweenSteps) {
  const TinyModel tiny = tiny_models()[1];
  const auto model = train::make_model(tiny.config, tiny.shape, at::kCPU, /*trains=*/true);
  const std::vector<data::Example> examples = tiny.examples(2, 3);
  const std::vector<int64_t> indices = {0, 1};
  device::HostMemory host(at::kCPU);
  device::StagingBuffer unused(host);
  const data::MicroBatch batch = data::make_micro_batch(examples, indices, unused, {});
  const auto loss_in = [&](uint64_t step) {
    nn::Tape tape;
    const std::vector<float> weights(2, 1.0f);
    return model->forward(batch, {.step = step}, weights, tape).terms.front();
  };
  EXPECT_TRUE(at::equal(loss_in(1), loss_in(1)));
  EXPECT_FALSE(at::equal(loss_in(1), loss_in(2)));
}

// Feature masks without dropout: different in each step, none in evaluation.
TEST(SpecAugment, MasksOnlyInTraining) {
  TinyModel tiny = tiny_models()[4];
  ASSERT_EQ(tiny.name, "torchaudio");
  tiny.config.model.as<models::TransformerCtcOptions>().dropout = 0.0;
  TinyModel bare = tiny;
  bare.config.model.as<models::TransformerCtcOptions>().spec_augment = {};
  const std::vector<data::Example> examples = tiny.examples(2, 3);
  const std::vector<int64_t> indices = {0, 1};
  device::HostMemory host(at::kCPU);
  device::StagingBuffer unused(host);
  const data::MicroBatch batch = data::make_micro_batch(examples, indices, unused, {});
  const auto loss_in = [&](const TinyModel& of, uint64_t step) {
    const auto model = train::make_model(of.config, of.shape, at::kCPU, /*trains=*/true);
    nn::Tape tape;
    const std::vector<float> weights(2, 1.0f);
    return model->forward(batch, {.step = step}, weights, tape).terms.front();
  };
  EXPECT_TRUE(at::equal(loss_in(tiny, 1), loss_in(tiny, 1)));
  EXPECT_FALSE(at::equal(loss_in(tiny, 1), loss_in(tiny, 2)));
  EXPECT_TRUE(at::equal(loss_in(bare, 1), loss_in(bare, 2)));
  const auto evaluated = [&](const TinyModel& of) {
    const auto model = train::make_model(of.config, of.shape, at::kCPU, /*trains=*/true);
    return model->recognise(batch).losses.terms.front();
  };
  EXPECT_TRUE(at::equal(evaluated(tiny), evaluated(bare)));
  EXPECT_TRUE(at::equal(evaluated(tiny), loss_in(bare, 1)));
}

// --- segments of a row of text

TEST(Segments, LearnLikeSeparateRows) {
  for (const bool is_tied : {false, true}) {
    train::RunConfig config = tiny_lm(is_tied);
    config.model.as<models::DecoderLmOptions>().dropout =
        0.0;  // its masks are keyed by row and segment
    const std::vector<data::Example> apart = text_examples(6, 5);
    // The same tokens in two rows.
    std::vector<data::Example> together(2);
    for (size_t i = 0; i < apart.size(); ++i) {
      data::Example& row = together[i / 4];
      row.utterance = static_cast<int64_t>(i / 4);
      row.rows += apart[i].rows;
      row.segments.push_back(apart[i].rows);
      row.tokens.insert(row.tokens.end(), apart[i].tokens.begin(), apart[i].tokens.end());
      row.labels.insert(row.labels.end(), apart[i].labels.begin(), apart[i].labels.end());
    }
    const train::StepSettings settings{.reduction = models::Reduction::kTokens};
    const auto step = [&](const std::vector<data::Example>& examples, int64_t max_utterances) {
      train::StepSettings split = settings;
      split.limits.max_utterances = max_utterances;
      train::Learner learner(config, kTextShape, at::kCPU);
      return train::run_step(learner, examples, split);
    };
    const train::StepResult expected = step(apart, 6);
    for (const int64_t rows_at_once : {1, 2}) {
      const train::StepResult found = step(together, rows_at_once);
      EXPECT_EQ(found.num_micro_batches, 3 - rows_at_once);
      EXPECT_NEAR(found.loss, expected.loss, kChunkSumTolerance * expected.loss);
      EXPECT_NEAR(found.gradient_norm, expected.gradient_norm,
                  kChunkSumTolerance * expected.gradient_norm);
    }
    if (is_tied) continue;  // it has no positions for rows of this length
    // As one segment they would see each other.
    for (data::Example& row : together) row.segments.clear();
    EXPECT_GT(std::abs(step(together, 2).loss - expected.loss), 1e-3);
  }
}

// --- layer drop

TEST(LayerDrop, DropsTheSameLayersHoweverAStepIsSplit) {
  TinyModel tiny = tiny_models()[1];
  tiny.config.model.as<models::Wav2Vec2Options>().layer_drop = 0.5;
  const Outcome whole = run(tiny, kWhole);
  expect_same(run(tiny, {{0}, {1, 2, 3}, {4, 5}}), whole, "three packs");
}

TEST(LayerDrop, DoesNotUpdateDroppedLayers) {
  TinyModel tiny = tiny_models()[0];
  tiny.config.model.as<models::Wav2Vec2Options>().layer_drop = 0.5;
  tiny.config.optimizer.weight_decay = 0.1;
  train::Learner learner(tiny.config, tiny.shape, at::kCPU);
  int64_t num_left_out = 0, num_steps_with_all = 0;
  for (train::StepSettings settings{.total_steps = 100}; settings.step <= 12; ++settings.step) {
    std::vector<at::Tensor> before;
    for (const nn::Parameter& parameter : learner.model->parameters().parameters())
      before.push_back(parameter.value.clone());
    const std::vector<std::string> left_out = learner.model->outline().left_out(
        {.seed = settings.seed, .step = static_cast<uint64_t>(settings.step)});
    train::run_step(learner, tiny.examples(3, 8), settings);
    size_t index = 0;
    for (const nn::Parameter& parameter : learner.model->parameters().parameters()) {
      const bool is_left_out = std::ranges::any_of(left_out, [&](const std::string& prefix) {
        return parameter.spec.name.starts_with(prefix);
      });
      EXPECT_EQ(at::equal(parameter.value, before[index++]), is_left_out) << parameter.spec.name;
    }
    num_left_out += std::ssize(left_out);
    num_steps_with_all += left_out.empty() ? 1 : 0;
  }
  EXPECT_GT(num_left_out, 2);
  EXPECT_GT(num_steps_with_all, 0);
}

// --- frozen parts

void freeze_encoder(models::Wav2Vec2Options& model) {
  model.freeze_feature_encoder = true;
}
void freeze_positions(models::Wav2Vec2Options& model) {
  model.freeze_positions = true;
}
void freeze_first_layer(models::Wav2Vec2Options& model) {
  model.freeze_layers = 1;
}

TEST(Frozen, PartsHaveNoGradientOrStateAndStayUnchanged) {
  for (const auto freeze : {freeze_encoder, freeze_positions, freeze_first_layer}) {
    TinyModel tiny = tiny_models()[1];
    const Outcome all = run(tiny, kWhole);
    freeze(tiny.config.model.as<models::Wav2Vec2Options>());
    const Outcome frozen = run(tiny, kWhole);
    train::Learner learner(tiny.config, tiny.shape, at::kCPU);
    std::vector<at::Tensor> before;
    for (const nn::Parameter& parameter : learner.model->parameters().parameters())
      before.push_back(parameter.value.clone());
    train::run_step(learner, tiny.examples(3, 8), {});
    size_t index = 0;
    int64_t num_trained = 0;
    for (const nn::Parameter& parameter : learner.model->parameters().parameters()) {
      EXPECT_EQ(parameter.gradient.defined(), parameter.spec.trains);
      EXPECT_EQ(at::equal(parameter.value, before[index]), !parameter.spec.trains)
          << parameter.spec.name;
      // What is trained has the gradient that it has with everything trained.
      if (parameter.spec.trains) {
        EXPECT_TRUE(at::equal(frozen.gradients[index], all.gradients[index]))
            << parameter.spec.name;
        ++num_trained;
      }
      ++index;
    }
    EXPECT_EQ(std::ssize(learner.optimizer.states()), num_trained);
    EXPECT_LT(num_trained, static_cast<int64_t>(index));
  }
}

}  // namespace
}  // namespace sotto::test
