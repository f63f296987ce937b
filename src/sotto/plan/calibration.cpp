#include "sotto/plan/calibration.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "sotto/core/build_info.h"
#include "sotto/core/error.h"
#include "sotto/core/files/json_cache.h"
#include "sotto/core/units.h"
#include "sotto/device/copy_lane.h"
#include "sotto/device/cpu_level.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/gpu_info.h"
#include "sotto/device/host_info.h"
#include "sotto/device/host_memory.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/elementwise/activation.h"
#include "sotto/kernels/elementwise/residual_add.h"
#include "sotto/kernels/product/gemm.h"
#include "sotto/train/step/library_constant.h"

namespace sotto::plan {

namespace {

using kernels::CostRecorder;
using kernels::Rates;
using kernels::Work;

constexpr int kRepeats = 5;
// Minimum duration of a measurement: a GPU's clock rises only under load.
constexpr double kLeastSeconds = 0.01;
constexpr int kMostCalls = 400;
// On a CPU a call that takes longer is timed without repeats: a slow processor, or an arithmetic
// without native products, would otherwise be measured for minutes.
constexpr double kLongSeconds = 0.1;
// Memory unit of the measured tensors: as many units are used as fit into the budget.
constexpr int64_t kBytesPerScale = int64_t{64} << 20;
constexpr int64_t kFullScale = 16;
// Fraction of the bandwidth of an addition that norms, activations and dropout reach on a GPU,
// fitted to whole steps of 32 plans (gpu_plans in docs/results.md).
constexpr double kOfAddition = 0.5;
// Elementwise arithmetic rate of a GPU, high enough that memory bandwidth dominates; and the gap
// between kernels.
constexpr double kPlentyFlopsPerS = 1e14;
constexpr double kPauseSeconds = 1.5e-6;

// Returns the time of a call in a sequence of calls: the median of several rounds, after warm-up
// rounds.
double seconds_of(const device::RunDevice& device, const std::function<void()>& call) {
  const auto time_calls = [&](int count) {
    if (device.target.is_cuda()) device::synchronize_cuda();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) call();
    if (device.target.is_cuda()) device::synchronize_cuda();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double first = time_calls(1);
  const double once = std::min(first, time_calls(1));
  if (!device.target.is_cuda() && once > kLongSeconds) return once;
  const int count = std::clamp(static_cast<int>(kLeastSeconds / once), 1, kMostCalls);
  time_calls(count);
  std::array<double, kRepeats> seconds = {};
  for (double& each : seconds) each = time_calls(count) / count;
  std::ranges::nth_element(seconds, seconds.begin() + kRepeats / 2);
  return seconds[kRepeats / 2];
}

// Operations per second, and the fixed overhead per call.
struct Line {
  double flops_per_s = 1.0;
  double seconds_per_call = 0.0;
  double packed_bytes_per_s = 0.0;
};

// Returns the cost that a call reports, with its measured time.
kernels::KernelCost measure(const device::RunDevice& device, const std::function<void()>& call) {
  kernels::KernelCost cost;
  {
    const CostRecorder recorder;
    call();
    cost = recorder.total();
  }
  cost.seconds = seconds_of(device, call);
  return cost;
}

// Fits a line through a small and a large amount of the same work.
Line line_through(const kernels::KernelCost& a, const kernels::KernelCost& b) {
  const double whole = b.total.flops / b.seconds;
  const double slope = (b.total.flops - a.total.flops) / std::max(1e-9, b.seconds - a.seconds);
  // Where noise distorts the slope, only the large amount is used.
  if (slope < whole || slope > 2.0 * whole) return {.flops_per_s = whole};
  return {
      .flops_per_s = slope,
      .seconds_per_call = (b.seconds - b.total.flops / slope) / static_cast<double>(b.num_calls)};
}

class Calibration {
 public:
  // A GPU is faster and needs larger tensors to reach its rates: `scale` is their size.
  Calibration(const device::RunDevice& device, int64_t scale)
      : device_(device), is_cuda_(device.target.is_cuda()), scale_(scale) {}

  at::Tensor random(int64_t rows, int64_t columns, at::ScalarType type) const {
    return at::randn({rows, columns}, at::TensorOptions().device(device_.torch)).to(type);
  }

  // Measures the products of a block, forward and both gradients, with weights larger than any
  // cache.
  Line products(at::ScalarType type) const {
    constexpr int64_t kWidth = 1'024;
    const at::Tensor w = random(4 * kWidth, kWidth, type);
    at::Tensor dw = at::zeros({4 * kWidth, kWidth}, w.options().dtype(at::kFloat));
    const int64_t most = is_cuda_ ? 750 * scale_ : 750;
    const at::Tensor x = random(most, kWidth, type);
    const at::Tensor dy = random(most, 4 * kWidth, type);
    const auto of_rows = [&](int64_t rows) {
      return [=, x = x.narrow(0, 0, rows), dy = dy.narrow(0, 0, rows)]() mutable {
        kernels::Gemm::multiply({.a = x, .b = w, .transpose_b = true});
        kernels::Gemm::multiply({.a = dy, .b = w});
        kernels::Gemm::accumulate(dw, {.a = dy, .b = x, .transpose_a = true});
      };
    };
    const kernels::KernelCost few = measure(device_, of_rows(most / 12));
    const kernels::KernelCost many = measure(device_, of_rows(most));
    if (device_.target.is_cuda()) return line_through(few, many);
    const auto rates = kernels::PackedRates::through(few, many);
    return {.flops_per_s = rates.flops_per_s,
            .seconds_per_call = call(),
            .packed_bytes_per_s = rates.bytes_per_s};
  }

  // Measures attention, forward and backward: 16 heads (8 on a CPU) of width 64 over utterances of
  // 12 s.
  Line attention(at::ScalarType type) const {
    constexpr int64_t kFrames = 600;
    const int64_t heads = is_cuda_ ? 16 : 8;
    const auto of_utterances = [&](int64_t count) {
      const kernels::Packing packing(std::vector<int64_t>(static_cast<size_t>(count), kFrames),
                                     device_.torch);
      const at::Tensor qkv = random(kFrames * count, 3 * 64 * heads, type);
      const at::Tensor dy = random(kFrames * count, 64 * heads, type);
      return [=] {
        const kernels::Attention::Options options{.num_heads = heads};
        const auto [y, softmax] = kernels::Attention::forward(qkv, packing, options);
        kernels::Attention::backward({.dy = dy, .qkv = qkv, .y = y, .softmax = softmax}, packing,
                                     options);
      };
    };
    return line_through(
        measure(device_, of_utterances(1)),
        measure(device_, of_utterances(is_cuda_ ? std::max<int64_t>(2, scale_) : 2)));
  }

  // Measures elementwise arithmetic. On a GPU memory bandwidth dominates it.
  double elementwise() const {
    if (device_.target.is_cuda()) return kPlentyFlopsPerS;
    const at::Tensor x = random(1'000, 2'048, at::kFloat);
    const kernels::KernelCost cost = measure(device_, [&] { kernels::Gelu::forward(x); });
    return cost.total.flops / cost.seconds;
  }

  // Measures bandwidth with tensors larger than any cache.
  double memory() const {
    at::Tensor x = random(is_cuda_ ? 500 * scale_ : 4'000, 4'096, at::kFloat);
    const at::Tensor y = at::zeros_like(x);
    const double bytes = 3.0 * static_cast<double>(x.nbytes());
    const double addition =
        bytes / seconds_of(device_, [&] { kernels::ResidualAdd::accumulate(x, y); });
    return device_.target.is_cuda() ? kOfAddition * addition : addition;
  }

  // Measures the overhead of a sequence of tiny kernels: products and others, mixed as in a block.
  double call() const {
    at::Tensor x = random(16, 16, at::kFloat);
    const at::Tensor y = at::zeros_like(x);
    constexpr int kCalls = 3;
    return seconds_of(device_,
                      [&] {
                        kernels::Gemm::multiply({.a = x, .b = y});
                        kernels::Gelu::forward(y);
                        kernels::ResidualAdd::accumulate(x, y);
                      }) /
           kCalls;
  }

  // Measures the copies that transfer optimizer state and layer inputs.
  double link() const {
    const int64_t bytes = (is_cuda_ ? scale_ : kFullScale) * (int64_t{4} << 20);
    const at::Tensor here = random(bytes / 4'096, 1'024, at::kFloat);
    device::HostMemory host(device_.torch.type());
    const device::HostBlock there = host.allocate(bytes, "to measure the link");
    device::CopyLane lane(device_.torch.type());
    return static_cast<double>(bytes) / seconds_of(device_, [&] {
             lane.follow_device();
             lane.copy(there.data(), here.const_data_ptr(), bytes);
             lane.device_follows();
           });
  }

 private:
  const device::RunDevice& device_;
  bool is_cuda_;
  int64_t scale_;
};

at::ScalarType half_type(train::Compute compute) {
  return compute == train::Compute::kFp16 ? at::kHalf : at::kBFloat16;
}

bool uses_half(train::Compute compute) {
  return compute == train::Compute::kBf16 || compute == train::Compute::kFp16;
}

// Returns the scale that fits into the budget; kFullScale on the CPU, where the budget does not
// matter.
int64_t scale_for(const device::RunDevice& device, int64_t budget_bytes) {
  if (!device.target.is_cuda() || budget_bytes == kNoBudget) return kFullScale;
  const int64_t room = train::room_for_trials(device, budget_bytes);
  if (room >= kBytesPerScale) return std::min(kFullScale, room / kBytesPerScale);
  throw Infeasible(
      {.attempted = fmt::format("measuring the speed of {}", device.name),
       .found = fmt::format("{} left of a budget of {}", format_bytes(std::max<int64_t>(0, room)),
                            format_bytes(budget_bytes)),
       .expected = fmt::format("at least {}", format_bytes(kBytesPerScale)),
       .hint = fmt::format("Try --memory {}.",
                           format_mebibytes(budget_bytes - room + 2 * kBytesPerScale))});
}

}  // namespace

Rates measure_rates(const device::RunDevice& device, train::Compute compute, int64_t budget_bytes) {
  const device::TargetScope target(device.target);
  train::apply_arithmetic({.compute = compute});
  const bool is_cuda = device.target.is_cuda();
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  if (is_cuda) train::allocate_blas_workspaces(device, compute);
  const int64_t scale = scale_for(device, budget_bytes);
  // Allocations come from an arena, as in a run, so that they make no driver calls.
  const auto arena = std::make_shared<device::Arena>(
      is_cuda ? device::RegionKind::kCuda : device::RegionKind::kHost, scale * kBytesPerScale);
  const device::ArenaGuard guard(device.torch.type(), arena);
  const Calibration calibration(device, scale);
  Rates rates{.bytes_per_s = calibration.memory(), .link_bytes_per_s = calibration.link()};
  const auto set = [&](Work work, const Line& line) {
    rates.flops_per_s[static_cast<size_t>(work)] = line.flops_per_s;
    rates.seconds_per_call[static_cast<size_t>(work)] = line.seconds_per_call;
    rates.packed_bytes_per_s[static_cast<size_t>(work)] = line.packed_bytes_per_s;
  };
  const double call = calibration.call();
  // A CPU call does its work synchronously; a GPU kernel is only launched.
  rates.launch_seconds = is_cuda ? call : 0.0;
  set(Work::kElementwise, {.flops_per_s = calibration.elementwise(),
                           .seconds_per_call = is_cuda ? kPauseSeconds : call});
  set(Work::kProduct32, calibration.products(at::kFloat));
  set(Work::kAttention32, calibration.attention(at::kFloat));
  // Half precision is measured only where the arithmetic uses it: it is slow on a CPU.
  const at::ScalarType half = half_type(compute);
  set(Work::kProduct16, uses_half(compute) ? calibration.products(half) : Line{});
  set(Work::kAttention16, uses_half(compute) ? calibration.attention(half) : Line{});
  return rates;
}

namespace {

nlohmann::json to_json(const Rates& rates) {
  return {{"flops_per_s", rates.flops_per_s},
          {"bytes_per_s", rates.bytes_per_s},
          {"link_bytes_per_s", rates.link_bytes_per_s},
          {"seconds_per_call", rates.seconds_per_call},
          {"launch_seconds", rates.launch_seconds},
          {"packed_bytes_per_s", rates.packed_bytes_per_s}};
}

// Returns none where it was not written by to_json().
std::optional<Rates> rates_from_json(const nlohmann::json& json) {
  try {
    return Rates{.flops_per_s = json.at("flops_per_s"),
                 .bytes_per_s = json.at("bytes_per_s"),
                 .link_bytes_per_s = json.at("link_bytes_per_s"),
                 .seconds_per_call = json.at("seconds_per_call"),
                 .launch_seconds = json.at("launch_seconds"),
                 .packed_bytes_per_s = json.at("packed_bytes_per_s")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

JsonCache cache() {
  return JsonCache::named("rates.json");
}

std::string key_of(const device::RunDevice& device, train::Compute compute, int64_t scale) {
  std::string key = fmt::format("{} | driver {} | {} threads | {} | {}", device.name,
                                device::read_gpus().driver_version, at::get_num_threads(),
                                build_info().commit, name_of(compute, train::kComputes));
  return scale == kFullScale ? key : fmt::format("{} | {}/{}", key, scale, kFullScale);
}

}  // namespace

Rates calibrate(const device::RunDevice& device, train::Compute compute, int64_t budget_bytes) {
  const Rates rates = measure_rates(device, compute, budget_bytes);
  cache().store(key_of(device, compute, scale_for(device, budget_bytes)), to_json(rates));
  return rates;
}

Rates known_rates(const device::RunDevice& device, train::Compute compute, int64_t budget_bytes) {
  // A measurement at full scale is better than one limited by this budget.
  for (const int64_t scale : {kFullScale, scale_for(device, budget_bytes)}) {
    const std::optional<nlohmann::json> kept = cache().find(key_of(device, compute, scale));
    if (!kept) continue;
    if (const std::optional<Rates> rates = rates_from_json(*kept)) return *rates;
  }
  return calibrate(device, compute, budget_bytes);
}

std::vector<train::Compute> computes_of(const device::Target& target) {
  if (!target.is_cuda()) {
    // On a CPU without bf16 instructions, measuring bf16 takes minutes, and no plan chooses it.
    if (!target.cpu.bf16) return {train::Compute::kFp32};
    return {train::Compute::kFp32, train::Compute::kBf16};
  }
  if (!target.has_bf16()) return {train::Compute::kFp32, train::Compute::kFp16};
  return {train::Compute::kFp32, train::Compute::kTf32, train::Compute::kBf16};
}

}  // namespace sotto::plan
