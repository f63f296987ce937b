#include "support/random_plans.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/data/batch/example_list.h"
#include "sotto/device/torch_memory.h"
#include "sotto/models/decoder_lm/decoder_lm.h"
#include "sotto/models/parakeet/parakeet_options.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"
#include "sotto/models/whisper/whisper_options.h"
#include "sotto/plan/calibration.h"
#include "sotto/plan/planner.h"
#include "sotto/plan/usual_data.h"
#include "support/draws.h"
#include "support/librispeech.h"
#include "support/tiny_models.h"

namespace sotto::test {

namespace {

using train::RunConfig;

constexpr int64_t kItems = 24;

struct Case {
  std::string name;
  plan::PlanRequest request = {};
  std::vector<data::Example> examples = {};
  std::vector<float> lengths = {};
};

constexpr std::array kOnTheCpu = {
    Named{"fp32", train::Numerics::kFp32}, Named{"bf16-exact", train::Numerics::kBf16Exact},
    Named{"bf16-lean", train::Numerics::kBf16Lean}, Named{"fp16", train::Numerics::kFp16}};

void draw_sizes(Draws& draws, RunConfig& config) {
  const int64_t layers = draws.from(1, 5), heads = draws.from(1, 4);
  const int64_t width = heads * 8 * draws.from(1, 3), hidden = draws.from(8, 130);
  if (config.model.find<models::Wav2Vec2Options>() != nullptr) {
    const bool is_stable = config.model.as<models::Wav2Vec2Options>().norm_first;
    const models::ModelOptions preset =
        models::ModelOptions::of_preset(is_stable ? "wav2vec2-large-lv60" : "wav2vec2-base");
    auto& model = config.model.as<models::Wav2Vec2Options>();
    model = preset.as<models::Wav2Vec2Options>();
    model.conv_widths.assign(7, draws.from(4, 16));
    model.layers = layers;
    model.heads = heads;
    model.width = width;
    model.hidden = hidden;
    model.position_taps = 16;
    model.position_groups = heads;
    model.layer_drop = 0.0;
    model.freeze_feature_encoder = draws.coin();
    model.freeze_layers = draws.coin() ? draws.from(0, layers - 1) : 0;
  } else if (config.model.task().is_text()) {
    models::DecoderLmOptions& model = config.model.as<models::DecoderLmOptions>();
    model.layers = layers;
    model.heads = heads;
    model.width = width;
    model.hidden = hidden;
    model.max_tokens = 512;
  } else if (config.model.find<models::ConformerOptions>() != nullptr) {
    models::ConformerOptions& model = config.model.as<models::ConformerOptions>();
    model.features = kernels::LogMelOptions::of_kind(model.features.kind);
    model.layers = layers;
    model.heads = heads;
    model.width = width;
    model.hidden = hidden;
    model.kernel = 2 * draws.from(0, 20) + 1;
    model.subsampling_factor = int64_t{1} << draws.from(1, 3);
  } else if (config.model.find<models::ParakeetOptions>() != nullptr) {
    models::ParakeetOptions& model = config.model.as<models::ParakeetOptions>();
    model.features = models::ParakeetOptions().features;
    model.layers = layers;
    model.heads = heads;
    model.width = width;
    model.hidden = hidden;
    model.subsampling_channels = draws.from(4, 40);
    model.freeze_layers = draws.coin() ? draws.from(0, layers - 1) : 0;
  } else if (config.model.find<models::WhisperOptions>() != nullptr) {
    models::WhisperOptions& model = config.model.as<models::WhisperOptions>();
    model.features = models::WhisperOptions().features;
    model.positions = models::WhisperOptions().positions;
    model.max_tokens = models::WhisperOptions().max_tokens;
    model.layers = layers;
    model.decoder_layers = draws.from(1, 3);
    model.heads = model.decoder_heads = heads;
    model.width = width;
    model.hidden = model.decoder_hidden = hidden;
    model.freeze_layers = draws.coin() ? draws.from(0, layers - 1) : 0;
  } else {
    models::TransformerCtcOptions& model = config.model.as<models::TransformerCtcOptions>();
    model.features = kernels::LogMelOptions::of_kind(model.features.kind);
    model.layers = layers;
    model.heads = heads;
    model.width = width;
    model.hidden = hidden;
    model.subsampling_factor = 4;
  }
}

// More than 90 million parameters, in few layers, so that a step takes seconds.
void make_large(Draws& draws, RunConfig& config) {
  const int64_t width = 64 * draws.from(22, 26), layers = draws.from(4, 5);
  if (config.model.find<models::Wav2Vec2Options>() != nullptr) {
    models::Wav2Vec2Options& model = config.model.as<models::Wav2Vec2Options>();
    model.width = width;
    model.heads = width / 64;
    model.hidden = 4 * width;
    model.layers = layers;
    model.position_groups = width / 64;
    model.freeze_layers = 0;
  } else if (config.model.task().is_text()) {
    models::DecoderLmOptions& model = config.model.as<models::DecoderLmOptions>();
    model.width = width;
    model.heads = width / 64;
    model.hidden = 4 * width;
    model.layers = layers;
  } else if (config.model.find<models::ConformerOptions>() != nullptr) {
    models::ConformerOptions& model = config.model.as<models::ConformerOptions>();
    model.width = width;
    model.heads = width / 64;
    model.hidden = width;
    model.layers = layers;
  } else if (config.model.find<models::ParakeetOptions>() != nullptr) {
    models::ParakeetOptions& model = config.model.as<models::ParakeetOptions>();
    model.width = width;
    model.heads = width / 64;
    model.hidden = width;
    model.layers = layers;
    model.freeze_layers = 0;
  } else if (config.model.find<models::WhisperOptions>() != nullptr) {
    models::WhisperOptions& model = config.model.as<models::WhisperOptions>();
    model.width = width;
    model.heads = model.decoder_heads = width / 64;
    model.hidden = model.decoder_hidden = width;
    model.layers = layers;
    model.freeze_layers = 0;
  } else {
    models::TransformerCtcOptions& model = config.model.as<models::TransformerCtcOptions>();
    model.width = width;
    model.heads = width / 64;
    model.hidden = 4 * width;
    model.layers = layers;
  }
}

// Any sound; labels by length, so that the longest has the most of them.
data::Example draw_utterance(Draws& draws, int64_t number, double seconds, int64_t rate) {
  data::Example example = data::make_dry_example(std::llround(seconds * static_cast<double>(rate)),
                                                 /*feature_dim=*/0, 0);
  example.utterance = number;
  example.seconds = seconds;
  example.values.resize(static_cast<size_t>(example.rows));
  const auto pitch = static_cast<float>(0.01 + 0.2 * draws.share());
  for (size_t i = 0; i < example.values.size(); ++i)
    example.values[i] = 0.3f * std::sin(pitch * static_cast<float>(i));
  example.labels.assign(static_cast<size_t>(std::max(1.0, 4.0 * seconds)), 0);
  for (size_t i = 0; i < example.labels.size(); ++i)
    example.labels[i] = static_cast<int32_t>(1 + i % 5);
  return example;
}

data::Example text_row(int64_t number, int64_t tokens) {
  data::Example example = data::make_dry_text(tokens);
  example.utterance = number;
  for (int64_t i = 0; i < tokens; ++i)
    example.tokens[static_cast<size_t>(i)] = static_cast<int32_t>((7 * number + 3 * i) % 60);
  example.labels = example.tokens;
  return example;
}

void draw_data(Draws& draws, bool is_large, Case& random) {
  const RunConfig& config = random.request.config;
  if (config.model.task().is_text()) {
    const int64_t tokens = draws.from(8, is_large ? 128 : 512);
    for (int64_t i = 0; i < kItems; ++i) {
      random.examples.push_back(text_row(i, tokens));
      random.lengths.push_back(static_cast<float>(tokens));
    }
    return;
  }
  // True lengths where they are at hand; else those that plans without data take.
  std::vector<float> seconds = librispeech_seconds();
  if (seconds.empty()) seconds = plan::usual_data(config).lengths();
  for (int64_t i = 0; i < kItems; ++i) {
    const auto index = static_cast<size_t>(draws.from(0, std::ssize(seconds) - 1));
    // Some are longer than any of LibriSpeech.
    const double length = draws.from(0, 9) == 0 && !is_large ? 30.0 : double{seconds[index]};
    const double cut = is_large ? 0.25 * length : length;
    random.examples.push_back(draw_utterance(draws, i, cut, config.model.sample_rate()));
    random.lengths.push_back(static_cast<float>(cut));
  }
}

nn::LayerTiers draw_tiers(Draws& draws) {
  const nn::Tier rest = draws.one_of(nn::kTiers);
  if (draws.coin()) return rest;
  return {{{.num_layers = draws.from(1, 2), .tier = draws.one_of(nn::kTiers)}}, rest};
}

// What the user fixed; the rest is the planner's.
void draw_choices(Draws& draws, int64_t longest_frames, plan::PlanRequest& request) {
  RunConfig& config = request.config;
  config.numerics = draws.one_of(kOnTheCpu);
  if (draws.coin()) config.precision.small_below = 64;
  request.open = {
      .numerics = false, .state = draws.coin(), .tier = draws.coin(), .max_frames = draws.coin()};
  if (!request.open.max_frames) config.max_frames = longest_frames;
  config.optimizer.state = draws.one_of(optim::kStateLocations);
  config.tier = draw_tiers(draws);
  config.effective_batch.utterances = draws.from(2, 8);
  if (draws.coin()) config.micro_batch = draws.from(1, 4);
  config.reduction =
      config.model.task().is_text() ? models::Reduction::kTokens : draws.one_of(train::kReductions);
}

// Of no machine: what is planned must not depend on how busy this one is.
kernels::Rates fixed_rates(train::Compute) {
  kernels::Rates rates{.bytes_per_s = 2e10, .link_bytes_per_s = 5e9};
  rates.flops_per_s.fill(1e11);
  rates.seconds_per_call.fill(1e-6);
  return rates;
}

// How fast this machine is.
const kernels::Rates& measured_rates(train::Compute compute) {
  static std::map<train::Compute, kernels::Rates> known;
  const auto found = known.find(compute);
  if (found != known.end()) return found->second;
  return known.emplace(compute, plan::measure_rates(device::RunDevice{}, compute)).first->second;
}

// Of the encoder.
int64_t longest_frames(const Case& random) {
  const std::unique_ptr<models::Model> network =
      random.request.config.model.make(random.request.shape, {.device = at::kMeta});
  int64_t most = 0;
  for (const data::Example& example : random.examples)
    most = std::max(most, network->size_of(data::size_of(example)).frames);
  return most;
}

Case draw_case(uint64_t number, bool is_large) {
  Draws draws(is_large ? 901 : 900, number);
  const std::vector<TinyModel> models = tiny_models();
  const TinyModel& model = models[number % models.size()];
  Case random{.name = model.name};
  random.request.config = model.config;
  random.request.shape = model.shape;
  draw_sizes(draws, random.request.config);
  if (is_large) make_large(draws, random.request.config);
  draw_data(draws, is_large, random);
  draw_choices(draws, longest_frames(random), random.request);
  random.request.budget.bytes = device::Arena::kUnlimited;
  random.request.rates = fixed_rates;
  return random;
}

// Of what is computed again and again, the fastest: other work on the machine only adds to it.
constexpr int kTimed = 5;

double seconds_of_step(train::Learner& learner, const std::vector<data::Example>& examples,
                       const train::StepSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  train::run_step(learner, examples, settings);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Two steps of the first epoch, dry and real; where it is timed, the second more than once.
void run_steps(const Case& random, const plan::Candidate& candidate,
               const data::ExampleList& source, bool is_timed, PlanProof& proof) {
  const RunConfig& config = candidate.config;
  const int64_t capacity = candidate.fit.worst.high_water;
  train::DryRun dry(config, random.request.shape, train::DryRun::Purpose::kTraining);
  train::StepSettings settings{
      .reduction = config.reduction, .tier = config.tier, .limits = train::limits_of(config)};
  const data::EpochOrder epoch =
      data::Sampler({.seed = 1, .batch = config.effective_batch}, random.lengths).epoch(0);
  // As a run does it.
  train::BudgetFit fit(dry, source, {.bytes = capacity});
  settings.limits = fit.find_limits(config.effective_batch, settings).limits;
  settings.limits =
      train::EpochAuditor(dry, source, {.bytes = capacity}).audit(epoch, settings).fit.limits;
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kHost, capacity);
  const device::ArenaGuard guard(at::kCPU, arena);
  train::Learner learner(config, random.request.shape, at::kCPU);
  const train::Compute compute = config.arithmetic().compute;
  const kernels::Rates own_rates = is_timed ? measured_rates(compute) : fixed_rates(compute);
  for (int i = 0; i < 2; ++i) {
    std::vector<data::Example> examples;
    for (const uint32_t location : epoch.utterances(std::min<int64_t>(i, epoch.num_steps() - 1)))
      examples.push_back(random.examples[location]);
    settings.step = i + 1;
    PlanProof::Step& step = proof.steps[i];
    {
      const kernels::CostRecorder recorded(&own_rates);
      const device::MemoryReport planned = dry.run_step(examples, settings);
      step.predicted_peak = planned.peak;
      step.predicted_high_water = planned.high_water;
      step.predicted_s = plan::time_of(recorded, own_rates, {}).total_s();
    }
    arena->reset_peak();
    step.measured_s = seconds_of_step(learner, examples, settings);
    step.measured_peak = arena->report().peak;
    step.measured_high_water = arena->report().high_water;
    for (int again = 1; is_timed && i == 1 && again < kTimed; ++again)
      step.measured_s = std::min(step.measured_s, seconds_of_step(learner, examples, settings));
  }
}

// The longest utterance alone at the tier that keeps least, in an arena of the budget.
bool runs_out(const Case& random) {
  RunConfig config = random.request.config;
  if (random.request.open.tier) config.tier = nn::Tier::kBlock;
  // What a CPU calls its host is the same memory: plans leave it there only where it is fixed.
  if (random.request.open.state) config.optimizer.state = optim::StateLocation::kDevice;
  const auto longest = std::ranges::max_element(
      random.examples, {}, [](const data::Example& example) { return example.rows; });
  const auto arena =
      std::make_shared<device::Arena>(device::RegionKind::kHost, random.request.budget.bytes);
  const device::ArenaGuard guard(at::kCPU, arena);
  try {
    train::Learner learner(config, random.request.shape, at::kCPU);
    const std::vector<data::Example> examples(
        static_cast<size_t>(config.adaptive_batching ? 1 : config.micro_batch), *longest);
    train::run_step(learner, examples, {.reduction = config.reduction, .tier = config.tier});
  } catch (const OutOfMemory&) {
    return true;
  }
  return false;
}

}  // namespace

PlanProof prove_random_plan(uint64_t number, bool is_large) {
  Case random = draw_case(number, is_large);
  const data::ExampleList source(random.examples, random.lengths);
  const plan::Plan whole = plan::Planner(random.request, source).plan();
  PlanProof proof{.name = fmt::format("{} {}: {} {}, tier {}", is_large ? "large" : "random",
                                      number, random.name,
                                      name_of(random.request.config.numerics, train::kNumerics),
                                      random.request.config.tier.to_string())};
  proof.num_parameters =
      random.request.config.model.make(random.request.shape, {.device = at::kMeta})
          ->parameters()
          .num_values();
  // From what few of them fit into to more than all need.
  Draws draws(902, number);
  random.request.budget.bytes = static_cast<int64_t>(
      (0.5 + 0.8 * draws.share()) * static_cast<double>(whole.best.fit.worst.high_water));
  std::optional<plan::Plan> plan;
  try {
    plan = plan::Planner(random.request, source).plan();
  } catch (const ConfigError& error) {
    proof.refusal = error.what();
  }
  if (plan) {
    proof.is_feasible = true;
    EXPECT_LE(plan->best.fit.worst.high_water, random.request.budget.bytes) << proof.name;
    run_steps(random, plan->best, source, is_large, proof);
  } else {
    proof.ran_out = runs_out(random);
    // Of a large one the time is of interest too, with the memory that it wants.
    if (is_large) run_steps(random, whole.best, source, is_large, proof);
  }
  return proof;
}

void expect_holds(const PlanProof& proof, PlanProofs& all) {
  if (proof.is_feasible) {
    ++all.num_feasible;
  } else {
    ++all.num_refused;
    EXPECT_TRUE(proof.ran_out) << proof.name << " was refused, and yet ran: " << proof.refusal;
  }
  for (const PlanProof::Step& step : proof.steps) {
    if (!proof.is_feasible && step.measured_peak == 0) continue;  // it was not run
    EXPECT_EQ(step.measured_peak, step.predicted_peak) << proof.name;
    EXPECT_LE(step.measured_high_water, step.predicted_high_water) << proof.name;
    const double share = static_cast<double>(step.measured_high_water) /
                         static_cast<double>(step.predicted_high_water);
    EXPECT_GE(share, 0.99) << proof.name;
    all.least_share = std::min(all.least_share, share);
  }
}

}  // namespace sotto::test
