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
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/loss/cross_entropy.h"

namespace sotto::train {

namespace {

using data::Example;
using data::MicroBatch;
using device::MomentScope;
using device::Phase;

// Rows of text may have tokens without a target.
bool is_target(int32_t label) {
  return label != kernels::CrossEntropy::kNoTarget;
}

std::vector<float> weights_of(const models::Outline& outline, std::span<const Example> examples,
                              models::Reduction reduction) {
  const int64_t num_ends = outline.decoder && outline.decoder->counts_end ? 1 : 0;
  std::vector<int64_t> label_lengths;
  for (const Example& example : examples)
    label_lengths.push_back(std::ranges::count_if(example.labels, is_target) + num_ends);
  return models::utterance_weights(reduction, label_lengths);
}

// Returns the position in the step of each utterance of a pack: for an example with several
// segments, once per segment.
std::vector<int64_t> owners_of(std::span<const Example> examples,
                               std::span<const int64_t> indices) {
  std::vector<int64_t> owners;
  for (const int64_t index : indices)
    owners.insert(owners.end(), data::num_segments(examples[static_cast<size_t>(index)]), index);
  return owners;
}

// Returns the weights of a micro-batch, multiplied by the loss scale.
std::vector<float> scaled_at(const std::vector<float>& weights, std::span<const int64_t> indices,
                             double scale) {
  std::vector<float> chosen;
  for (const int64_t index : indices)
    chosen.push_back(weights[static_cast<size_t>(index)] * static_cast<float>(scale));
  return chosen;
}

// Losses of a step's utterances, collected on the device: the host reads them once, at the end.
class StepLosses {
 public:
  StepLosses(std::span<const Example> examples, const std::vector<models::LossTerm>& terms,
             const at::Device& device)
      : num_examples_(examples.size()), terms_(terms) {
    const device::CategoryScope category(device::Category::kData);
    for (const Example& example : examples)
      num_utterances_ += static_cast<int64_t>(data::num_segments(example));
    values_ = at::empty({std::ssize(terms) * num_utterances_},
                        at::TensorOptions().dtype(at::kFloat).device(device));
  }

  // Adds the losses of one micro-batch.
  void add(const models::Losses& losses, std::span<const int64_t> indices) {
    const int64_t first = std::ssize(indices_);
    indices_.insert(indices_.end(), indices.begin(), indices.end());
    if (values_.is_meta()) return;
    for (int64_t term = 0; term < std::ssize(terms_); ++term)
      values_.narrow(0, term * num_utterances_ + first, std::ssize(indices))
          .copy_(losses.terms[static_cast<size_t>(term)], true);
  }

  // Returns each term over the whole step. Examples are summed in step order, so that the result
  // does not depend on the split. Waits for the device.
  std::vector<NamedLoss> read(const std::vector<float>& weights) const {
    std::vector<NamedLoss> read;
    const at::Tensor on_host = values_.is_meta() ? values_ : values_.cpu();
    for (size_t term = 0; term < terms_.size(); ++term) {
      std::vector<float> in_order(num_examples_, 0.0f);
      for (size_t i = 0; i < indices_.size() && !on_host.is_meta(); ++i)
        in_order[static_cast<size_t>(indices_[i])] +=
            on_host.const_data_ptr<float>()[term * static_cast<size_t>(num_utterances_) + i];
      const double sum = std::inner_product(weights.begin(), weights.end(), in_order.begin(), 0.0);
      read.push_back({.name = terms_[term].name, .weight = terms_[term].weight, .loss = sum});
    }
    return read;
  }

 private:
  size_t num_examples_;
  const std::vector<models::LossTerm>& terms_;
  int64_t num_utterances_ = 0;
  at::Tensor values_;             // [terms, utterances] fp32, in micro-batch order
  std::vector<int64_t> indices_;  // positions in the step
};

}  // namespace

std::unique_ptr<models::Model> make_model(const RunConfig& config, const models::DataShape& shape,
                                          const at::Device& device, bool trains) {
  const Arithmetic arithmetic = config.arithmetic();
  return config.model.make(shape,
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
  std::vector<data::ItemSize> items;
  for (const data::ExampleSize& size : sizes) items.push_back(model.size_of(size));
  data::StepPacking packing = data::pack_step(items, limits);
  if (!packing.too_large.empty()) {
    const auto index = static_cast<size_t>(packing.too_large.front());
    std::string expected = fmt::format("at most {} frames", limits.max_frames);
    if (limits.max_labels != MicroBatchLimits::kUnlimited)
      expected += fmt::format(" and {} labels", limits.max_labels);
    std::string found = fmt::format("{} has {} frames and {} labels", name_of(index),
                                    items[index].frames, items[index].labels);
    if (limits.max_nodes != MicroBatchLimits::kUnlimited) {
      expected += fmt::format(" and {} nodes of the lattice", limits.max_nodes);
      found += fmt::format(", {} nodes", items[index].nodes);
    }
    throw DataError({.attempted = "splitting a step into micro-batches",
                     .found = found,
                     .expected = expected,
                     .hint = "Raise max_frames if it is set, or --memory; choose a tier that "
                             "keeps less, or skip it with data.max_seconds."});
  }
  return std::move(packing.micro_batches);
}

std::vector<std::vector<int64_t>> split_step(const models::Model& model,
                                             std::span<const Example> examples,
                                             const MicroBatchLimits& limits) {
  std::vector<data::ExampleSize> sizes;
  for (const Example& example : examples) sizes.push_back(data::size_of(example));
  return split_sizes(model, sizes, limits, [&](size_t index) {
    // A dry example is of no line.
    if (examples[index].values.empty()) return std::string("an utterance");
    return fmt::format("utterance {} of the manifest", examples[index].utterance + 1);
  });
}

device::MemoryReport memory_of_step(const device::Arena& arena, const Learner& learner,
                                    const StepResult& result) {
  device::MemoryReport report = arena.report();
  report.host_peak = learner.host.peak_bytes();
  report.after_forward = result.after_forward_bytes;
  report.after_backward = result.after_backward_bytes;
  return report;
}

StepResult run_step(Learner& learner, std::span<const Example> examples,
                    const StepSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  // There is no graph to build: this skips the dispatch that would look for one on every call.
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  models::Model& model = *learner.model;
  const std::vector<float> weights = weights_of(model.outline(), examples, settings.reduction);
  const auto micro_batches = split_step(model, examples, settings.limits);
  check_micro_batches(learner.gradient_type, std::ssize(micro_batches));
  const std::vector<nn::Tier> tiers = settings.tier.first(model.num_tapes());

  StepResult result{.num_micro_batches = std::ssize(micro_batches), .infeasible = {}};
  StepLosses losses(examples, model.outline().loss_terms, learner.device);
  model.parameters().zero_gradients();
  model.parameters().discard_statistics();
  nn::StepContext context{.seed = settings.seed,
                          .step = static_cast<uint64_t>(settings.step),
                          .drops_layers = settings.drops_layers};
  for (const std::vector<int64_t>& indices : micro_batches) {
    const MicroBatch batch =
        data::make_micro_batch(examples, indices, learner.staging,
                               {.device = learner.device, .decoder = model.outline().decoder});
    const std::vector<int64_t> owners = owners_of(examples, indices);
    nn::Tape tape(tiers, &learner.host_tape);
    const models::Losses of_batch =
        model.forward(batch, context, scaled_at(weights, owners, settings.loss_scale), tape);
    result.after_forward_bytes =
        std::max(result.after_forward_bytes, device::live_bytes(learner.device.type()));
    model.backward(batch, context, tape);
    result.after_backward_bytes = device::live_bytes(learner.device.type());

    losses.add(of_batch, owners);
    for (const int64_t u : of_batch.infeasible) {
      const auto index = static_cast<size_t>(owners[static_cast<size_t>(u)]);
      result.infeasible.push_back(examples[index].utterance);
    }
    for (const int64_t index : indices)
      result.num_frames +=
          model.size_of(data::size_of(examples[static_cast<size_t>(index)])).frames;
    ++context.micro_batch;
  }

  const MomentScope moment({.phase = Phase::kUpdate});
  learner.optimizer.measure_gradients();
  const optim::Optimizer::Update update{.step = settings.step,
                                        .total_steps = settings.total_steps,
                                        .schedule_begin = settings.schedule_begin,
                                        .rate_factor = settings.rate_factor,
                                        .gradient_scale = 1.0 / settings.loss_scale,
                                        .seed = settings.seed,
                                        .left_out = model.outline().left_out(context)};
  // Stays false until the host has synchronised with the device, which reports failures late.
  learner.is_whole = false;
  learner.optimizer.step(update);
  result.rate = learner.optimizer.rate(update);

  // All work is submitted: here the host waits for a GPU for the first time in the step.
  const std::chrono::duration<double> launching = std::chrono::steady_clock::now() - start;
  result.launch_seconds = launching.count();
  for (const NamedLoss& term : losses.read(weights)) {
    result.loss += term.weight * term.loss;
    result.terms.push_back(term);
  }
  result.gradient_norm = learner.optimizer.gradient_norm() / settings.loss_scale;
  result.is_updated = std::isfinite(result.gradient_norm);
  if (result.is_updated) model.parameters().commit_statistics();
  learner.is_whole = true;
  return result;
}

}  // namespace sotto::train
