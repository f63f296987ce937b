#include "sotto/plan/calibration.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "sotto/core/build_info.h"
#include "sotto/core/json_cache.h"
#include "sotto/device/copy_lane.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/gpu_info.h"
#include "sotto/device/host_memory.h"
#include "sotto/kernels/activation.h"
#include "sotto/kernels/attention.h"
#include "sotto/kernels/gemm.h"
#include "sotto/kernels/residual_add.h"

namespace sotto::plan {

namespace {

using kernels::CostRecorder;
using kernels::Rates;
using kernels::Work;

constexpr int kRepeats = 5;

// The median of several calls, the first of which is not counted.
double seconds_of(const device::RunDevice& device, const std::function<void()>& call) {
  const auto wait = [&] {
    if (device.target.is_cuda()) device::synchronize_cuda();
  };
  std::array<double, kRepeats> seconds = {};
  for (int i = -1; i < kRepeats; ++i) {
    wait();
    const auto start = std::chrono::steady_clock::now();
    call();
    wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (i >= 0) seconds[static_cast<size_t>(i)] = taken.count();
  }
  std::ranges::nth_element(seconds, seconds.begin() + kRepeats / 2);
  return seconds[kRepeats / 2];
}

// The operations a second of a call, by what it reports.
double flops_per_s(const device::RunDevice& device, const std::function<void()>& call) {
  double flops = 0.0;
  {
    const CostRecorder recorder;
    call();
    flops = recorder.total().total.flops;
  }
  return flops / seconds_of(device, call);
}

class Calibration {
 public:
  explicit Calibration(const device::RunDevice& device)
      : device_(device),
        // A GPU is faster, and needs more to do to show it.
        scale_(device.target.is_cuda() ? 8 : 1) {}

  at::Tensor random(int64_t rows, int64_t columns, at::ScalarType type) const {
    return at::randn({rows, columns}, at::TensorOptions().device(device_.torch)).to(type);
  }

  // Of the products of a block of width 512 (of 1,024 on a GPU), forward and its two gradients.
  double products(at::ScalarType type) const {
    const int64_t width = scale_ == 1 ? 512 : 1'024;
    const at::Tensor x = random(1'000 * scale_, width, type);
    const at::Tensor w = random(4 * width, width, type);
    const at::Tensor dy = random(1'000 * scale_, 4 * width, type);
    at::Tensor dw = at::zeros({4 * width, width}, x.options().dtype(at::kFloat));
    return flops_per_s(device_, [&] {
      kernels::Gemm::multiply({.a = x, .b = w, .transpose_b = true});
      kernels::Gemm::multiply({.a = dy, .b = w});
      kernels::Gemm::accumulate(dw, {.a = dy, .b = x, .transpose_a = true});
    });
  }

  // Eight heads of 64 over utterances of 15 s, forward and backward.
  double attention(at::ScalarType type) const {
    const kernels::Packing packing(std::vector<int64_t>(static_cast<size_t>(scale_), 750),
                                   device_.torch);
    const kernels::Attention::Options options{.num_heads = 8};
    const at::Tensor qkv = random(750 * scale_, 3 * 512, type);
    const at::Tensor dy = random(750 * scale_, 512, type);
    return flops_per_s(device_, [&] {
      const auto [y, softmax] = kernels::Attention::forward(qkv, packing, options);
      kernels::Attention::backward({.dy = dy, .qkv = qkv, .y = y, .softmax = softmax}, packing,
                                   options);
    });
  }

  double elementwise() const {
    const at::Tensor x = random(1'000 * scale_, 2'048, at::kFloat);
    return flops_per_s(device_, [&] { kernels::Gelu::forward(x); });
  }

  double memory() const {
    at::Tensor x = random(4'000 * scale_, 4'096, at::kFloat);
    const at::Tensor y = at::zeros_like(x);
    const double bytes = 3.0 * static_cast<double>(x.nbytes());
    return bytes / seconds_of(device_, [&] { kernels::ResidualAdd::accumulate(x, y); });
  }

  // Of kernels with nothing to do, one after the other.
  double call() const {
    constexpr int kCalls = 200;
    at::Tensor x = random(1, 16, at::kFloat);
    const at::Tensor y = at::zeros_like(x);
    return seconds_of(device_,
                      [&] {
                        for (int i = 0; i < kCalls; ++i) kernels::ResidualAdd::accumulate(x, y);
                      }) /
           kCalls;
  }

  // Of the copies that carry state and inputs of layers.
  double link() const {
    constexpr int64_t kBytes = int64_t{64} << 20;
    const at::Tensor here = random(kBytes / 4'096, 1'024, at::kFloat);
    device::HostMemory host(device_.torch.type());
    const device::HostBlock there = host.allocate(kBytes, "to measure the link");
    device::CopyLane lane(device_.torch.type());
    return static_cast<double>(kBytes) / seconds_of(device_, [&] {
             lane.follow_device();
             lane.copy(there.data(), here.const_data_ptr(), kBytes);
             lane.device_follows();
           });
  }

 private:
  const device::RunDevice& device_;
  int64_t scale_;
};

at::ScalarType half_type(const device::Target& target) {
  return target.has_bf16() ? at::kBFloat16 : at::kHalf;
}

// Half-precision work is measured where the arithmetic uses it: on a CPU it is slow.
bool uses_half(train::Compute compute) {
  return compute == train::Compute::kBf16 || compute == train::Compute::kFp16;
}

}  // namespace

Rates measure_rates(const device::RunDevice& device, train::Compute compute) {
  const device::TargetScope target(device.target);
  train::apply_arithmetic({.compute = compute});
  const Calibration calibration(device);
  Rates rates{.bytes_per_s = calibration.memory(), .link_bytes_per_s = calibration.link()};
  const auto set = [&](Work work, double flops) {
    rates.flops_per_s[static_cast<size_t>(work)] = flops;
  };
  set(Work::kElementwise, calibration.elementwise());
  set(Work::kProduct32, calibration.products(at::kFloat));
  set(Work::kAttention32, calibration.attention(at::kFloat));
  const bool has_half = uses_half(compute);
  const at::ScalarType half = half_type(device.target);
  set(Work::kProduct16, has_half ? calibration.products(half) : 1.0);
  set(Work::kAttention16, has_half ? calibration.attention(half) : 1.0);
  set(Work::kLink, 1.0);
  const double call = calibration.call();
  // A CPU does its work where it is called; a GPU is told of it meanwhile.
  rates.seconds_per_call = device.target.is_cuda() ? 0.25 * call : call;
  rates.launch_seconds = device.target.is_cuda() ? call : 0.0;
  return rates;
}

namespace {

nlohmann::json to_json(const Rates& rates) {
  return {{"flops_per_s", rates.flops_per_s},
          {"bytes_per_s", rates.bytes_per_s},
          {"link_bytes_per_s", rates.link_bytes_per_s},
          {"seconds_per_call", rates.seconds_per_call},
          {"launch_seconds", rates.launch_seconds}};
}

// Nothing where it is not what to_json() wrote.
std::optional<Rates> rates_from_json(const nlohmann::json& json) {
  try {
    return Rates{.flops_per_s = json.at("flops_per_s"),
                 .bytes_per_s = json.at("bytes_per_s"),
                 .link_bytes_per_s = json.at("link_bytes_per_s"),
                 .seconds_per_call = json.at("seconds_per_call"),
                 .launch_seconds = json.at("launch_seconds")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

namespace {

JsonCache cache() {
  return JsonCache::named("rates.json");
}

std::string key_of(const device::RunDevice& device, train::Compute compute) {
  return fmt::format("{} | driver {} | {} threads | {} | {}", device.name,
                     device::read_gpus().driver_version, at::get_num_threads(), build_info().commit,
                     name_of(compute, train::kComputes));
}

}  // namespace

Rates calibrate(const device::RunDevice& device, train::Compute compute) {
  const Rates rates = measure_rates(device, compute);
  cache().store(key_of(device, compute), to_json(rates));
  return rates;
}

Rates rates_at_hand(const device::RunDevice& device, train::Compute compute) {
  if (const std::optional<nlohmann::json> kept = cache().find(key_of(device, compute))) {
    if (const std::optional<Rates> rates = rates_from_json(*kept)) return *rates;
  }
  return calibrate(device, compute);
}

std::vector<train::Compute> computes_of(const device::Target& target) {
  if (!target.is_cuda()) return {train::Compute::kFp32, train::Compute::kBf16};
  if (!target.has_bf16()) return {train::Compute::kFp32, train::Compute::kFp16};
  return {train::Compute::kFp32, train::Compute::kTf32, train::Compute::kBf16};
}

}  // namespace sotto::plan
