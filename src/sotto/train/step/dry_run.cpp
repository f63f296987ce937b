#include "sotto/train/step/dry_run.h"

#include <numeric>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/data/batch/micro_batch.h"
#include "sotto/device/torch_memory.h"

namespace sotto::train {

using device::Arena;
using device::ArenaGuard;
using device::TargetScope;

DryRun::DryRun(const RunConfig& config, const models::DataShape& shape, Purpose purpose,
               const device::Target& target)
    : task_(config.model.task()),
      target_(target),
      gradient_type_(config.arithmetic().gradients),
      arena_(std::make_shared<Arena>(device::RegionKind::kNothing, Arena::kUnlimited)) {
  const ArenaGuard guard(at::kMeta, arena_);
  const TargetScope scope(target_);
  if (purpose == Purpose::kTraining) {
    learner_ = std::make_unique<Learner>(config, shape, at::kMeta);
    model_ = learner_->model.get();
  } else {
    recogniser_ = make_model(config, shape, at::kMeta, /*trains=*/false);
    model_ = recogniser_.get();
  }
  set_decoding(config.decode);
}

DryRun::~DryRun() = default;

void DryRun::set_decoding(const decode::DecodeOptions& options, bool has_times) {
  decode::check_effects(options, model_->outline());
  decoding_ = decode::dry_decoding(options);
  decoding_.has_times = has_times;
}

device::MemoryReport DryRun::run_step(std::span<const data::Example> examples,
                                      const StepSettings& settings) {
  SOTTO_ASSERT(learner_ != nullptr, "a step of a network that does not train");
  StepResult result;
  observe([&] { result = train::run_step(*learner_, examples, settings); });
  return memory_of_step(*arena_, *learner_, result);
}

device::MemoryReport DryRun::run_micro_batch(std::span<const data::Example> examples,
                                             const nn::LayerTiers& tier) {
  return run_step(examples, {.tier = tier, .drops_layers = false});
}

device::MemoryReport DryRun::trace_step(std::span<const data::Example> examples,
                                        const StepSettings& settings) {
  arena_->trace_moments(true);
  device::MemoryReport report = run_step(examples, settings);
  arena_->trace_moments(false);
  return report;
}

device::MemoryReport DryRun::recognise(std::span<const data::Example> examples) {
  return observe([&] {
    std::vector<int64_t> indices(examples.size());
    std::iota(indices.begin(), indices.end(), int64_t{0});
    device::HostMemory host(at::kMeta);
    device::StagingBuffer staging(host);
    decode::find_labels(model_->recognise(data::make_micro_batch(
                            examples, indices, staging,
                            {.device = at::kMeta, .decoder = model_->outline().decoder})),
                        decoding_);
  });
}

device::MemoryReport DryRun::observe(const std::function<void()>& action) {
  const ArenaGuard guard(at::kMeta, arena_);
  const TargetScope scope(target_);
  arena_->reset_peak();
  // Host memory of earlier steps is not part of this one.
  if (learner_) {
    learner_->release_caches();
    learner_->host.reset_peak();
  }
  action();
  return arena_->report();
}

}  // namespace sotto::train
