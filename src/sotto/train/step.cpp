#include "sotto/train/step.h"

#include <cmath>
#include <numeric>

#include "sotto/core/error.h"
#include "sotto/data/micro_batch.h"
#include "sotto/data/step_packing.h"
#include "sotto/device/memory_scope.h"

namespace sotto::train {

namespace {

using data::Example;
using data::MicroBatch;
using device::MomentScope;
using device::Phase;
using kernels::Ctc;

std::vector<float> weights_of(std::span<const Example> examples, kernels::Reduction reduction) {
  std::vector<int64_t> label_lengths;
  for (const Example& example : examples)
    label_lengths.push_back(static_cast<int64_t>(example.labels.size()));
  return kernels::ctc_weights(reduction, label_lengths);
}

std::vector<float> at_places(const std::vector<float>& weights, std::span<const int64_t> places) {
  std::vector<float> chosen;
  for (const int64_t place : places) chosen.push_back(weights[static_cast<size_t>(place)]);
  return chosen;
}

// The losses of one micro-batch, put to their places in the step.
void collect_losses(const Ctc::Result& result, std::span<const int64_t> places,
                    std::vector<float>& losses) {
  if (result.loss.is_meta()) return;
  const at::Tensor on_host = result.loss.is_cpu() ? result.loss : result.loss.cpu();
  for (size_t i = 0; i < places.size(); ++i)
    losses[static_cast<size_t>(places[i])] = on_host.const_data_ptr<float>()[i];
}

// In the order of the step, so that the split does not show.
double weighted_sum(const std::vector<float>& weights, const std::vector<float>& losses) {
  return std::inner_product(weights.begin(), weights.end(), losses.begin(), 0.0);
}

}  // namespace

std::unique_ptr<models::Model> make_model(const RunConfig& config, const models::DataShape& shape,
                                          const at::Device& device, bool trains) {
  return std::make_unique<models::TransformerCtc>(
      config.model, shape,
      nn::ParameterAllocation{.device = device,
                              .weights = weight_type(config.numerics),
                              .seed = static_cast<uint64_t>(config.seed),
                              .trains = trains},
      compute_type(config.numerics));
}

Learner::Learner(const RunConfig& config, const models::DataShape& shape,
                 const at::Device& on_device, int64_t pinned_bytes)
    : device(on_device),
      staging(pinned_bytes),
      model(make_model(config, shape, on_device, /*trains=*/true)),
      optimizer(model->parameters(), config.optimizer) {}

std::vector<std::vector<int64_t>> split_step(const models::Model& model,
                                             std::span<const Example> examples,
                                             const MicroBatchLimits& limits) {
  std::vector<data::UtteranceSize> sizes;
  for (const Example& example : examples) {
    sizes.push_back({.frames = model.num_frames(example.rows),
                     .labels = static_cast<int64_t>(example.labels.size())});
  }
  data::StepPacking packing = data::pack_step(sizes, limits);
  if (!packing.too_large.empty()) {
    const auto place = static_cast<size_t>(packing.too_large.front());
    throw DataError({.attempted = "splitting a step into micro-batches",
                     .found = fmt::format(
                         "utterance {} of the manifest has {} frames and {} labels",
                         examples[place].utterance + 1, sizes[place].frames, sizes[place].labels),
                     .expected = fmt::format("at most {} frames and {} labels", limits.max_frames,
                                             limits.max_labels),
                     .hint = "Raise --memory, choose a tier that keeps less, or leave it out with "
                             "data.max_seconds."});
  }
  return std::move(packing.micro_batches);
}

StepResult run_step(Learner& learner, std::span<const Example> examples,
                    const StepSettings& settings) {
  models::Model& model = *learner.model;
  const std::vector<float> weights = weights_of(examples, settings.reduction);
  const auto micro_batches = split_step(model, examples, settings.limits);
  const std::vector<nn::Tier> tiers(static_cast<size_t>(model.num_layers()) + 2, settings.tier);

  StepResult result{.num_micro_batches = std::ssize(micro_batches), .infeasible = {}};
  std::vector<float> losses(examples.size(), 0.0f);
  model.parameters().zero_gradients();
  nn::StepContext context{.seed = settings.seed, .step = static_cast<uint64_t>(settings.step)};
  for (const std::vector<int64_t>& places : micro_batches) {
    const MicroBatch batch =
        data::make_micro_batch(examples, places, learner.device, learner.staging);
    nn::Tape tape(tiers);
    const Ctc::Result loss = model.forward(batch, context, at_places(weights, places), tape);
    model.backward(batch, context, tape);

    collect_losses(loss, places, losses);
    for (const int64_t u : loss.infeasible) {
      const auto place = static_cast<size_t>(places[static_cast<size_t>(u)]);
      result.infeasible.push_back(examples[place].utterance);
    }
    for (const int64_t place : places)
      result.num_frames += model.num_frames(examples[static_cast<size_t>(place)].rows);
    ++context.micro_batch;
  }
  result.loss = weighted_sum(weights, losses);

  const MomentScope moment({.phase = Phase::kUpdate});
  learner.optimizer.measure_gradients();
  learner.optimizer.step({.step = settings.step, .total_steps = settings.total_steps});
  result.gradient_norm = learner.optimizer.gradient_norm();
  result.rate = learner.optimizer.rate(settings.step, settings.total_steps);
  result.is_updated = std::isfinite(result.gradient_norm);
  return result;
}

}  // namespace sotto::train
