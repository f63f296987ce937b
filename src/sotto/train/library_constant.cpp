#include "sotto/train/library_constant.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "sotto/core/build_info.h"
#include "sotto/core/error.h"
#include "sotto/core/json_cache.h"
#include "sotto/core/units.h"
#include "sotto/data/micro_batch.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/gpu_info.h"
#include "sotto/train/step.h"

namespace sotto::train {

namespace {

// Enough frames that products take the kernels that long micro-batches take.
constexpr int64_t kUtterances = 8;
constexpr double kSecondsEach = 12.0;
constexpr int64_t kStoredFramesASecond = 50;
constexpr int64_t kLabelsEach = 20;
constexpr int64_t kTokensEach = 512;

// Shapes that come later make cuBLAS load kernels that were not touched: 2 to 4 MiB on an H200.
constexpr int64_t kLaterBytes = int64_t{16} << 20;

std::vector<data::Example> touching_examples(const RunConfig& config,
                                             const models::DataShape& shape) {
  const int64_t rate = shape.feature_dim > 0 ? kStoredFramesASecond : config.model.sample_rate();
  const auto rows = static_cast<int64_t>(kSecondsEach * static_cast<double>(rate));
  const int64_t label = shape.blank == 0 ? 1 : 0;
  std::vector<data::Example> examples;
  for (int64_t place = 0; place < kUtterances; ++place) {
    if (config.model.is_language_model()) {
      examples.push_back(data::make_dry_text(kTokensEach));
      continue;
    }
    data::Example example = data::make_dry_example(rows, shape.feature_dim, kLabelsEach);
    example.utterance = place;
    example.labels.assign(kLabelsEach, static_cast<int32_t>(label));
    example.values.assign(static_cast<size_t>(rows * std::max<int64_t>(1, shape.feature_dim)),
                          0.0f);
    // Any sound that is not silence.
    for (size_t i = 0; i < example.values.size(); i += 7) example.values[i] = 0.1f;
    examples.push_back(std::move(example));
  }
  return examples;
}

void touch_kernels(const RunConfig& config, const models::DataShape& shape,
                   const device::RunDevice& device) {
  RunConfig cut = config;
  cut.model = config.model.with_one_layer();
  // What is computed again meets all kernels that are there without it.
  cut.tier = config.tier.has(nn::Tier::kHost) ? nn::Tier::kHost : nn::Tier::kBlock;
  const std::vector<data::Example> examples = touching_examples(cut, shape);
  Learner learner(cut, shape, device.torch);
  run_step(learner, examples, {.reduction = config.reduction, .tier = cut.tier});
  std::vector<int64_t> places(examples.size());
  std::iota(places.begin(), places.end(), int64_t{0});
  learner.model->recognise(data::make_micro_batch(examples, places, device.torch, learner.staging));
}

JsonCache cache() {
  return JsonCache::named("library_constants.json");
}

// By card, driver, binary and arithmetic.
std::string key_of(const device::RunDevice& device, Compute compute) {
  return fmt::format("{} | driver {} | {} | {}", device.name, device::read_gpus().driver_version,
                     build_info().commit, name_of(compute, kComputes));
}

}  // namespace

int64_t measure_library_constant(const RunConfig& config, const models::DataShape& shape,
                                 const device::RunDevice& device) {
  if (!device.target.is_cuda()) return 0;
  touch_kernels(config, shape, device);
  device::synchronize_cuda();
  return device::used_by_this_process(device) + kLaterBytes;
}

StepBudget divide_budget(const RunConfig& config, const models::DataShape& shape,
                         const device::RunDevice& device, int64_t budget_bytes) {
  const Arithmetic arithmetic = config.arithmetic();
  check_arithmetic(arithmetic, device.target);
  apply_arithmetic(arithmetic);
  if (!device.target.is_cuda()) return {.bytes = budget_bytes};
  const int64_t constant_bytes = measure_library_constant(config, shape, device);
  cache().store(key_of(device, arithmetic.compute), constant_bytes);
  if (constant_bytes < budget_bytes)
    return {.bytes = budget_bytes - constant_bytes, .constant_bytes = constant_bytes};
  throw Infeasible({.attempted = fmt::format("taking a budget of {} on {}",
                                             format_bytes(budget_bytes), device.name),
                    .found = fmt::format("the driver and its libraries alone take {}",
                                         format_bytes(constant_bytes)),
                    .expected = "a budget above that",
                    .hint = fmt::format("Try --memory {}.", format_mebibytes(2 * constant_bytes))});
}

std::optional<int64_t> find_library_constant(const device::RunDevice& device, Compute compute) {
  const std::optional<nlohmann::json> kept = cache().find(key_of(device, compute));
  if (!kept || !kept->is_number_integer()) return std::nullopt;
  return kept->get<int64_t>();
}

}  // namespace sotto::train
