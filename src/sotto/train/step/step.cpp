#include "sotto/train/step/step.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "sotto/core/error.h"
#include "sotto/data/batch/micro_batch.h"
#include "sotto/data/batch/step_packing.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/loss/cross_entropy.h"

namespace sotto::train {

namespace {

using data::Example;
using data::MicroBatch;
using device::MomentScope;
using device::Phase;

// Rows of text may have nothing to say.
bool is_target(int32_t label) {
  return label != kernels::CrossEntropy::kNoTarget;
}

std::vector<float> weights_of(std::span<const Example> examples, kernels::Reduction reduction) {
  std::vector<int64_t> label_lengths;
  for (const Example& example : examples)
    label_lengths.push_back(std::ranges::count_if(example.labels, is_target));
  return kernels::ctc_weights(reduction, label_lengths);
}

// The place in the step of each utterance of a pack: an example's, for each of its segments.
std::vector<int64_t> owners_of(std::span<const Example> examples, std::span<const int64_t> places) {
  std::vector<int64_t> owners;
  for (const int64_t place : places)
    owners.insert(owners.end(), data::num_segments(examples[static_cast<size_t>(place)]), place);
  return owners;
}

// The weights of a micro-batch, with the scale of the loss.
std::vector<float> scaled_at(const std::vector<float>& weights, std::span<const int64_t> places,
                             double scale) {
  std::vector<float> chosen;
  for (const int64_t place : places)
    chosen.push_back(weights[static_cast<size_t>(place)] * static_cast<float>(scale));
  return chosen;
}

// The losses of a step's utterances, gathered on the device: the host asks once, at the end.
class StepLosses {
 public:
  StepLosses(std::span<const Example> examples, const at::Device& device)
      : num_examples_(examples.size()) {
    const device::CategoryScope category(device::Category::kData);
    int64_t num_utterances = 0;
    for (const Example& example : examples)
      num_utterances += static_cast<int64_t>(data::num_segments(example));
    values_ = at::empty({num_utterances}, at::TensorOptions().dtype(at::kFloat).device(device));
  }

  // Of one micro-batch.
  void add(const at::Tensor& losses, std::span<const int64_t> places) {
    const int64_t first = std::ssize(places_);
    places_.insert(places_.end(), places.begin(), places.end());
    if (!values_.is_meta()) values_.narrow(0, first, std::ssize(places)).copy_(losses, true);
  }

  // Of examples, in the order of the step, so that the split does not show. Waits for the device.
  std::vector<float> read() const {
    std::vector<float> in_order(num_examples_, 0.0f);
    if (values_.is_meta()) return in_order;
    const at::Tensor on_host = values_.cpu();
    for (size_t i = 0; i < places_.size(); ++i)
      in_order[static_cast<size_t>(places_[i])] += on_host.const_data_ptr<float>()[i];
    return in_order;
  }

 private:
  size_t num_examples_;
  at::Tensor values_;            // [utterances] fp32, in the order of micro-batches
  std::vector<int64_t> places_;  // in the step
};

double weighted_sum(const std::vector<float>& weights, const std::vector<float>& losses) {
  return std::inner_product(weights.begin(), weights.end(), losses.begin(), 0.0);
}

}  // namespace

std::unique_ptr<models::Model> make_model(const RunConfig& config, const models::DataShape& shape,
                                          const at::Device& device, bool trains) {
  const Arithmetic arithmetic = config.arithmetic();
  return models::make_model(config.model, shape,
                            nn::ParameterAllocation{.device = device,
                                                    .weights = arithmetic.weight_type(),
                                                    .gradients = arithmetic.gradients,
                                                    .small_below = arithmetic.small_below,
                                                    .seed = static_cast<uint64_t>(config.seed),
                                                    .trains = trains},
                            arithmetic.compute_type());
}

Learner::Learner(const RunConfig& config, const models::DataShape& shape,
                 const at::Device& on_device, int64_t host_bytes)
    : device(on_device),
      gradient_type(config.arithmetic().gradients),
      host(on_device.type(), host_bytes),
      staging(host),
      host_tape(host),
      model(make_model(config, shape, on_device, /*trains=*/true)),
      optimizer(model->parameters(), config.optimizer, config.arithmetic().state_form(), &host) {
  config.tier.check(model->num_tapes());
}

int64_t Learner::release_caches() {
  const int64_t before = host.used_bytes();
  staging.release();
  host_tape.release();
  return before - host.used_bytes();
}

std::vector<std::vector<int64_t>> split_sizes(const models::Model& model,
                                              std::span<const data::ExampleSize> sizes,
                                              const MicroBatchLimits& limits,
                                              const std::function<std::string(size_t)>& name_of) {
  std::vector<data::UtteranceSize> items;
  for (const data::ExampleSize& size : sizes)
    items.push_back({.frames = model.num_frames(size.rows), .labels = size.labels});
  data::StepPacking packing = data::pack_step(items, limits);
  if (!packing.too_large.empty()) {
    const auto place = static_cast<size_t>(packing.too_large.front());
    std::string expected = fmt::format("at most {} frames", limits.max_frames);
    if (limits.max_labels != MicroBatchLimits::kUnlimited)
      expected += fmt::format(" and {} labels", limits.max_labels);
    throw DataError({.attempted = "splitting a step into micro-batches",
                     .found = fmt::format("{} has {} frames and {} labels", name_of(place),
                                          items[place].frames, items[place].labels),
                     .expected = expected,
                     .hint = "Raise max_frames where it is set, or --memory; choose a tier that "
                             "keeps less, or leave it out with data.max_seconds."});
  }
  return std::move(packing.micro_batches);
}

std::vector<std::vector<int64_t>> split_step(const models::Model& model,
                                             std::span<const Example> examples,
                                             const MicroBatchLimits& limits) {
  std::vector<data::ExampleSize> sizes;
  for (const Example& example : examples) sizes.push_back(data::size_of(example));
  return split_sizes(model, sizes, limits, [&](size_t place) {
    return fmt::format("utterance {} of the manifest", examples[place].utterance + 1);
  });
}

StepResult run_step(Learner& learner, std::span<const Example> examples,
                    const StepSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  // There is no graph: ATen need not look for one at every call.
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  models::Model& model = *learner.model;
  const std::vector<float> weights = weights_of(examples, settings.reduction);
  const auto micro_batches = split_step(model, examples, settings.limits);
  check_micro_batches(learner.gradient_type, std::ssize(micro_batches));
  const std::vector<nn::Tier> tiers = settings.tier.first(model.num_tapes());

  StepResult result{.num_micro_batches = std::ssize(micro_batches), .infeasible = {}};
  StepLosses losses(examples, learner.device);
  model.parameters().zero_gradients();
  nn::StepContext context{.seed = settings.seed,
                          .step = static_cast<uint64_t>(settings.step),
                          .drops_layers = settings.drops_layers};
  for (const std::vector<int64_t>& places : micro_batches) {
    const MicroBatch batch =
        data::make_micro_batch(examples, places, learner.device, learner.staging);
    const std::vector<int64_t> owners = owners_of(examples, places);
    nn::Tape tape(tiers, &learner.host_tape);
    const models::Losses loss =
        model.forward(batch, context, scaled_at(weights, owners, settings.loss_scale), tape);
    model.backward(batch, context, tape);

    losses.add(loss.loss, owners);
    for (const int64_t u : loss.infeasible) {
      const auto place = static_cast<size_t>(owners[static_cast<size_t>(u)]);
      result.infeasible.push_back(examples[place].utterance);
    }
    for (const int64_t place : places)
      result.num_frames += model.num_frames(examples[static_cast<size_t>(place)].rows);
    ++context.micro_batch;
  }

  const MomentScope moment({.phase = Phase::kUpdate});
  learner.optimizer.measure_gradients();
  const optim::Optimizer::Update update{.step = settings.step,
                                        .total_steps = settings.total_steps,
                                        .rate_factor = settings.rate_factor,
                                        .gradient_scale = 1.0 / settings.loss_scale,
                                        .seed = settings.seed,
                                        .left_out = model.left_out(context)};
  // Until the host has waited for the device: its failures come that late.
  learner.is_whole = false;
  learner.optimizer.step(update);
  result.rate = learner.optimizer.rate(update);

  // All work is on its way: here the host waits for a GPU, for the first time in the step.
  const std::chrono::duration<double> launching = std::chrono::steady_clock::now() - start;
  result.launch_seconds = launching.count();
  result.loss = weighted_sum(weights, losses.read());
  result.gradient_norm = learner.optimizer.gradient_norm() / settings.loss_scale;
  result.is_updated = std::isfinite(result.gradient_norm);
  learner.is_whole = true;
  return result;
}

}  // namespace sotto::train
