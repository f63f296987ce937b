#include "sotto/train/library_constant.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "sotto/core/build_info.h"
#include "sotto/core/cache_folder.h"
#include "sotto/core/error.h"
#include "sotto/core/log.h"
#include "sotto/core/output_file.h"
#include "sotto/core/text_file.h"
#include "sotto/core/units.h"
#include "sotto/data/micro_batch.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/gpu_info.h"
#include "sotto/train/step.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;

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
  const std::vector<data::Example> examples = touching_examples(cut, shape);
  Learner learner(cut, shape, device.torch);
  run_step(learner, examples, {.reduction = config.reduction, .tier = config.tier});
  std::vector<int64_t> places(examples.size());
  std::iota(places.begin(), places.end(), int64_t{0});
  learner.model->recognise(data::make_micro_batch(examples, places, device.torch, learner.staging));
}

nlohmann::json read_cache(const fs::path& file) {
  try {
    return nlohmann::json::parse(read_text_file(file));
  } catch (const std::exception&) {
    return nlohmann::json::object();  // absent, or of no use
  }
}

}  // namespace

int64_t measure_library_constant(const RunConfig& config, const models::DataShape& shape,
                                 const device::RunDevice& device) {
  if (!device.target.is_cuda()) return 0;
  touch_kernels(config, shape, device);
  device::synchronize_cuda();
  return device::used_by_this_process(device) + kLaterBytes;
}

BudgetParts divide_budget(const RunConfig& config, const models::DataShape& shape,
                          const device::RunDevice& device, int64_t budget_bytes) {
  const Arithmetic arithmetic = config.arithmetic();
  check_arithmetic(arithmetic, device.target);
  apply_arithmetic(arithmetic);
  if (!device.target.is_cuda()) return {.arena_bytes = budget_bytes};
  const int64_t constant_bytes = measure_library_constant(config, shape, device);
  ConstantCache().store(constant_key(device, arithmetic.compute), constant_bytes);
  if (constant_bytes < budget_bytes)
    return {.constant_bytes = constant_bytes, .arena_bytes = budget_bytes - constant_bytes};
  throw ConfigError({.attempted = fmt::format("taking a budget of {} on {}",
                                              format_bytes(budget_bytes), device.name),
                     .found = fmt::format("the driver and its libraries alone take {}",
                                          format_bytes(constant_bytes)),
                     .expected = "a budget above that",
                     .hint = fmt::format("Try --memory {}MiB.", 2 * (constant_bytes >> 20))});
}

ConstantCache::ConstantCache(fs::path file) : file_(std::move(file)) {}

std::optional<int64_t> ConstantCache::find(const std::string& key) const {
  const nlohmann::json cache = read_cache(file_);
  const auto found = cache.find(key);
  if (found == cache.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

void ConstantCache::store(const std::string& key, int64_t bytes) const {
  nlohmann::json cache = read_cache(file_);
  cache[key] = bytes;
  const std::string text = cache.dump(2) + "\n";
  try {
    fs::create_directories(file_.parent_path());
    OutputFile file = OutputFile::create(file_);
    file.write(std::as_bytes(std::span(text)));
    file.close();
  } catch (const std::exception& error) {
    spdlog::debug("{} was not written and will be measured again: {}", file_.string(),
                  error.what());
  }
}

fs::path ConstantCache::default_file() {
  return cache_folder() / "library_constants.json";
}

std::string constant_key(const device::RunDevice& device, Compute compute) {
  return fmt::format("{} | driver {} | {} | {}", device.name, device::read_gpus().driver_version,
                     build_info().commit, name_of(compute, kComputes));
}

}  // namespace sotto::train
