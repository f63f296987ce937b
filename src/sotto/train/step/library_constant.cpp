#include "sotto/train/step/library_constant.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "sotto/core/build_info.h"
#include "sotto/core/error.h"
#include "sotto/core/files/json_cache.h"
#include "sotto/core/units.h"
#include "sotto/data/batch/micro_batch.h"
#include "sotto/decode/decoding.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/gpu_info.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/product/gemm.h"
#include "sotto/train/step/dry_run.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

namespace {

// Sizes of warm-up updates: products with few and with many frames use different kernels.
struct TouchingSize {
  int64_t utterances;
  double seconds_each;
  int64_t tokens_each;
};
constexpr std::array kTouchingSizes = {
    TouchingSize{.utterances = 1, .seconds_each = 1.0, .tokens_each = 32},
    TouchingSize{.utterances = 1, .seconds_each = 6.0, .tokens_each = 256},
    TouchingSize{.utterances = 3, .seconds_each = 8.0, .tokens_each = 512},
    TouchingSize{.utterances = 8, .seconds_each = 12.0, .tokens_each = 512},
    TouchingSize{.utterances = 24, .seconds_each = 15.0, .tokens_each = 1024}};
constexpr int64_t kStoredFramesPerSecond = 50;
constexpr int64_t kLabelsEach = 8;

// Reserve for kernels that cuBLAS loads later for shapes not seen in warm-up.
constexpr int64_t kLaterBytes = int64_t{32} << 20;

std::vector<data::Example> touching_examples(const RunConfig& config,
                                             const models::DataShape& shape,
                                             const TouchingSize& size) {
  const int64_t rate = shape.feature_dim > 0 ? kStoredFramesPerSecond : config.model.sample_rate();
  auto rows = static_cast<int64_t>(size.seconds_each * static_cast<double>(rate));
  if (const int64_t most = config.model.max_rows(shape.feature_dim); most > 0)
    rows = std::min(rows, most);
  const int64_t label = shape.blank == 0 ? 1 : 0;
  std::vector<data::Example> examples;
  for (int64_t index = 0; index < size.utterances; ++index) {
    if (config.model.task().is_text()) {
      examples.push_back(data::make_dry_text(size.tokens_each));
      continue;
    }
    data::Example example = data::make_dry_example(rows, shape.feature_dim, kLabelsEach);
    example.utterance = index;
    example.labels.assign(kLabelsEach, static_cast<int32_t>(label));
    example.values.assign(static_cast<size_t>(rows * std::max<int64_t>(1, shape.feature_dim)),
                          0.0f);
    // Any signal other than silence.
    for (size_t i = 0; i < example.values.size(); i += 7) example.values[i] = 0.1f;
    examples.push_back(std::move(example));
  }
  return examples;
}

// Runs one update and one recognition of that size in an arena of the size they need.
void touch(const RunConfig& config, const models::DataShape& shape, const device::RunDevice& device,
           std::span<const data::Example> examples, int64_t arena_bytes) {
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kCuda, arena_bytes);
  const device::ArenaGuard guard(device.torch.type(), arena);
  Learner learner(config, shape, device.torch);
  run_step(learner, examples, {.reduction = config.reduction, .tier = config.tier});
  std::vector<int64_t> indices(examples.size());
  std::iota(indices.begin(), indices.end(), int64_t{0});
  decode::find_labels(learner.model->recognise(data::make_micro_batch(
      examples, indices, learner.staging,
      {.device = device.torch, .decoder = learner.model->outline().decoder})));
  device::synchronize_cuda();
}

// Runs updates of increasing size, as far as they fit into the budget.
void touch_kernels(const RunConfig& config, const models::DataShape& shape,
                   const device::RunDevice& device, int64_t budget_bytes) {
  RunConfig cut = config;
  cut.model = config.model.with_one_layer();
  // Recomputation uses all kernels that are used without it.
  cut.tier = config.tier.has(nn::Tier::kHost) ? nn::Tier::kHost : nn::Tier::kBlock;
  allocate_blas_workspaces(device, cut.arithmetic().compute);
  DryRun dry(cut, shape, DryRun::Purpose::kTraining, device.target);
  for (const TouchingSize& size : kTouchingSizes) {
    const std::vector<data::Example> examples = touching_examples(cut, shape, size);
    const int64_t needed = std::max(
        dry.run_step(examples, {.reduction = config.reduction, .tier = cut.tier}).high_water,
        dry.recognise(examples).high_water);
    const int64_t room = room_for_trials(device, budget_bytes);
    if (needed > room) {
      // Not even the smallest fits: memory already in use exhausts the budget.
      if (&size == kTouchingSizes.data())
        divide_budget({.bytes = budget_bytes, .device_name = device.name},
                      std::max(budget_bytes, budget_bytes - room));
      return;
    }
    touch(cut, shape, device, examples, needed);
  }
}

JsonCache cache() {
  return JsonCache::named("library_constants.json");
}

// Key of the cache: card, driver, binary and arithmetic.
std::string key_of(const device::RunDevice& device, Compute compute) {
  return fmt::format("{} | driver {} | {} | {}", device.name, device::read_gpus().driver_version,
                     build_info().commit, name_of(compute, kComputes));
}

}  // namespace

int64_t room_for_trials(const device::RunDevice& device, int64_t budget_bytes) {
  return budget_bytes - device::used_by_this_process(device) - kLaterBytes;
}

void allocate_blas_workspaces(const device::RunDevice& device, Compute compute) {
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  std::vector<at::ScalarType> types = {at::kFloat};
  if (compute == Compute::kBf16) types.push_back(at::kBFloat16);
  if (compute == Compute::kFp16) types.push_back(at::kHalf);
  for (const at::ScalarType type : types) {
    const at::Tensor one = at::ones({16, 16}, at::TensorOptions(type).device(device.torch));
    at::Tensor sum = at::zeros({16, 16}, one.options().dtype(at::kFloat));
    kernels::Gemm::multiply({.a = one, .b = one});
    kernels::Gemm::accumulate(sum, {.a = one, .b = one});
  }
  device::synchronize_cuda();
}

int64_t measure_library_constant(const RunConfig& config, const models::DataShape& shape,
                                 const device::RunDevice& device, int64_t budget_bytes) {
  if (!device.target.is_cuda()) return 0;
  const device::TargetScope target(device.target);
  touch_kernels(config, shape, device, budget_bytes);
  const int64_t measured = device::used_by_this_process(device) + kLaterBytes;
  const std::optional<int64_t> known = find_library_constant(device, config.arithmetic().compute);
  return std::max(measured, known.value_or(0));
}

StepBudget take_budget(const RunConfig& config, const models::DataShape& shape,
                       const device::RunDevice& device, int64_t budget_bytes) {
  const Arithmetic arithmetic = config.arithmetic();
  check_arithmetic(arithmetic, device.target);
  apply_arithmetic(arithmetic);
  const NamedBudget named{.bytes = budget_bytes,
                          .host_bytes = device::resolve_host_budget(
                              config.host_memory, device.target, config.keeps_on_host()),
                          .device_name = device.name};
  if (!device.target.is_cuda()) return divide_budget(named, /*constant_bytes=*/0);
  const int64_t constant_bytes = measure_library_constant(config, shape, device, budget_bytes);
  cache().store(key_of(device, arithmetic.compute), constant_bytes);
  return divide_budget(named, constant_bytes);
}

void note_library_use(const device::RunDevice& device, Compute compute, int64_t bytes) {
  if (bytes > find_library_constant(device, compute).value_or(0))
    cache().store(key_of(device, compute), bytes + kLaterBytes);
}

std::optional<int64_t> find_library_constant(const device::RunDevice& device, Compute compute) {
  const std::optional<nlohmann::json> kept = cache().find(key_of(device, compute));
  if (!kept || !kept->is_number_integer()) return std::nullopt;
  return kept->get<int64_t>();
}

}  // namespace sotto::train
