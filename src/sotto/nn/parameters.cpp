#include "sotto/nn/parameters.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/core/rng.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/elementwise/cast.h"

namespace sotto::nn {

namespace {

using device::Category;
using device::CategoryScope;

// Fills with numbers first, first + 1, ... of the stream, on all cores: uniform within the bound of
// the parameter, or normal.
void fill_initial(std::span<float> values, const ParameterSpec& spec, const RandomStream& stream,
                  int64_t first) {
  constexpr int64_t kGrain = 4096;  // a multiple of four, the block size of the stream
  const int64_t num_tasks = (std::ssize(values) + kGrain - 1) / kGrain;
  at::parallel_for(0, num_tasks, 1, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min<int64_t>(end * kGrain, std::ssize(values));
    const std::span<float> part = values.subspan(static_cast<size_t>(begin * kGrain),
                                                 static_cast<size_t>(last - begin * kGrain));
    auto number = static_cast<uint64_t>(first + begin * kGrain);
    if (spec.bound == 0.0) {
      stream.fill_normal(part, number);
      for (float& value : part)
        value = static_cast<float>(spec.mean) + value * static_cast<float>(spec.deviation);
    } else {
      for (float& value : part)
        value = static_cast<float>(spec.bound) * (2.0f * stream.uniform(number++) - 1.0f);
    }
  });
}

void fill_randomly(at::Tensor& flat, const ParameterSpec& spec, uint64_t seed) {
  const RandomStream stream({.seed = seed, .layer = fnv1a(spec.name)});
  // Uses a vector: a tensor here would be an allocation that the dry run does not see.
  constexpr int64_t kAtOnce = int64_t{1} << 20;
  std::vector<float> values(static_cast<size_t>(std::min(kAtOnce, flat.numel())));
  for (int64_t first = 0; first < flat.numel(); first += kAtOnce) {
    const int64_t count = std::min(kAtOnce, flat.numel() - first);
    fill_initial({values.data(), static_cast<size_t>(count)}, spec, stream, first);
    flat.narrow(0, first, count).copy_(at::from_blob(values.data(), {count}, at::kFloat));
  }
}

void initialise(Parameter& parameter, uint64_t seed) {
  const ParameterSpec& spec = parameter.spec;
  at::Tensor flat = parameter.value.view(-1);
  if (spec.deviation == 0.0 && spec.bound == 0.0) {
    flat.fill_(spec.mean);
  } else {
    fill_randomly(flat, spec, seed);
  }
  const auto& [first, count, value] = spec.constant;
  if (count > 0) flat.narrow(0, first, count).fill_(value);
}

struct RangeKind {
  std::string_view name;
  bool decays;
  bool is_large;
  bool trains;
};

constexpr std::array kRangeKinds = {RangeKind{"matrices", true, true, true},
                                    RangeKind{"small matrices", true, false, true},
                                    RangeKind{"vectors", false, false, true},
                                    RangeKind{"frozen matrices", true, true, false},
                                    RangeKind{"frozen small matrices", true, false, false},
                                    RangeKind{"frozen vectors", false, false, false}};

bool belongs(const Parameter& parameter, const RangeKind& kind, int64_t small_below) {
  const ParameterSpec& spec = parameter.spec;
  const bool is_large = spec.decays() && spec.num_values() >= small_below;
  return spec.decays() == kind.decays && is_large == kind.is_large && spec.trains == kind.trains;
}

// Returns a zeroed buffer of `size` values: the padding between views is included in sums.
at::Tensor make_flat(int64_t size, Category category, const at::TensorOptions& options) {
  const CategoryScope scope(category);
  at::Tensor flat = at::empty({size}, options);
  if (!flat.is_meta()) flat.zero_();
  return flat;
}

// Allocates a range and divides it into the views of its members.
void make_range(ParameterRange& range, const std::vector<Parameter*>& members,
                const ParameterAllocation& allocation) {
  const auto on_device = at::TensorOptions().device(allocation.device);
  const auto type_of = [&](at::ScalarType large) { return range.is_large ? large : at::kFloat; };
  int64_t size = 0;
  for (const Parameter* parameter : members) size += range.spaced(parameter->spec.num_values());
  range.values = make_flat(size, Category::kWeights, on_device.dtype(type_of(allocation.weights)));
  if (range.trains)
    range.gradients =
        make_flat(size, Category::kGradients, on_device.dtype(type_of(allocation.gradients)));
  int64_t first = 0;
  for (Parameter* parameter : members) {
    const int64_t count = parameter->spec.num_values();
    parameter->value = range.values.narrow(0, first, count).view(parameter->spec.shape);
    if (range.trains)
      parameter->gradient = range.gradients.narrow(0, first, count).view(parameter->spec.shape);
    first += range.spaced(count);
  }
}

// Allocates the stages in one buffer. Like gradients, they last for a step.
void make_stages(std::deque<RunningStatistics>& all, const at::Device& device) {
  if (all.empty()) return;
  const CategoryScope scope(Category::kGradients);
  int64_t size = 0;
  for (const RunningStatistics& running : all) size += 2 * running.mean.spec.num_values();
  const at::Tensor flat = at::empty({size}, at::TensorOptions().device(device).dtype(at::kFloat));
  int64_t first = 0;
  for (RunningStatistics& running : all) {
    for (at::Tensor* vector : {&running.stage.mean, &running.stage.variance}) {
      *vector = flat.narrow(0, first, running.mean.spec.num_values());
      first += vector->numel();
    }
  }
}

}  // namespace

at::Tensor in_type_of(const at::Tensor& value, const at::Tensor& activations) {
  if (value.scalar_type() == activations.scalar_type()) return value;
  const CategoryScope category(Category::kWorkspace);
  return kernels::Cast::to(value, activations.scalar_type());
}

GradientSum::GradientSum(Parameter& parameter) : parameter_(&parameter) {
  const at::Tensor& gradient = parameter.gradient;
  if (gradient.scalar_type() == at::kFloat) return;
  const CategoryScope category(Category::kWorkspace);
  apart_ = at::empty(gradient.sizes(), gradient.options().dtype(at::kFloat));
  if (!apart_.is_meta()) apart_.zero_();
}

void GradientSum::add() {
  if (is_apart()) kernels::Cast::accumulate(parameter_->gradient, apart_);
}

int64_t ParameterSpec::num_values() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

Parameter& ParameterStore::declare(ParameterSpec spec) {
  SOTTO_ASSERT(ranges_.empty(), "'{}' is declared after allocate()", spec.name);
  SOTTO_ASSERT(find(spec.name) == nullptr, "'{}' is declared twice", spec.name);
  const auto is_prefix = [&](const std::string& prefix) { return spec.name.starts_with(prefix); };
  spec.trains = spec.trains && std::ranges::none_of(frozen_prefixes_, is_prefix);
  return parameters_.emplace_back(Parameter{.spec = std::move(spec), .value = {}, .gradient = {}});
}

RunningStatistics& ParameterStore::declare_averages(Parameter& mean, Parameter& variance) {
  SOTTO_ASSERT(ranges_.empty(), "'{}' becomes an average after allocate()", mean.spec.name);
  return running_.emplace_back(RunningStatistics{.mean = mean, .variance = variance});
}

void ParameterStore::allocate(const ParameterAllocation& allocation) {
  SOTTO_ASSERT(ranges_.empty(), "parameters are allocated twice");
  SOTTO_ASSERT(allocation.gradients == at::kFloat || allocation.gradients == allocation.weights,
               "gradients in {} of weights in {}", c10::toString(allocation.gradients),
               c10::toString(allocation.weights));
  for (const RangeKind& kind : kRangeKinds) {
    std::vector<Parameter*> members;
    for (Parameter& parameter : parameters_) {
      if (belongs(parameter, kind, allocation.small_below)) members.push_back(&parameter);
    }
    if (members.empty()) continue;
    ParameterRange range;
    range.name = kind.name;
    range.decays = kind.decays;
    range.is_large = kind.is_large;
    range.trains = kind.trains && allocation.trains;
    make_range(range, members, allocation);
    ranges_.push_back(std::move(range));
  }
  if (allocation.trains) make_stages(running_, allocation.device);
  if (allocation.device.is_meta()) return;
  for (Parameter& parameter : parameters_) initialise(parameter, allocation.seed);
}

void ParameterStore::zero_gradients() {
  for (ParameterRange& range : ranges_) {
    if (range.trains && !range.gradients.is_meta()) range.gradients.zero_();
  }
}

void ParameterStore::discard_statistics() {
  for (RunningStatistics& running : running_) running.stage.rows = 0;
}

// A layer that the step skipped has staged nothing.
void ParameterStore::commit_statistics() {
  for (RunningStatistics& running : running_) {
    if (running.stage.rows == 0) continue;
    kernels::BatchNorm::commit(running.stage,
                               {.mean = running.mean.value, .variance = running.variance.value});
  }
  discard_statistics();
}

Parameter* ParameterStore::find(std::string_view name) {
  const auto found =
      std::find_if(parameters_.begin(), parameters_.end(),
                   [&](const Parameter& parameter) { return parameter.spec.name == name; });
  return found == parameters_.end() ? nullptr : &*found;
}

int64_t ParameterStore::num_values() const {
  int64_t sum = 0;
  for (const Parameter& parameter : parameters_) sum += parameter.spec.num_values();
  return sum;
}

}  // namespace sotto::nn
