// gpu_cross_entropy: the loss of a language model through its projection on a GPU, losses and
// gradients, beside ATen's linear and cross_entropy_loss with autograd on the same tensors: time of
// one call, and the most bytes that it held.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "../program.h"
#include "sotto/core/units.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/run_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "sotto/report/table.h"

namespace {

using namespace sotto;           // NOLINT: a program of one file
using namespace sotto::kernels;  // NOLINT

constexpr int64_t kRows = 4'096;
constexpr int64_t kWidth = 1'024;
constexpr int64_t kVocabulary = 50'000;
constexpr int64_t kUtterances = 16;
constexpr int kCalls = 20;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Measured {
  double seconds;
  int64_t peak_bytes;
};

// The median of calls that each wait for the device, behind some that warm it up. Each side has an
// arena of its own, so that its peak is what it allocated itself.
Measured measure(const std::function<void()>& call) {
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kCuda, int64_t{8} << 30);
  const device::ArenaGuard guard(at::kCUDA, arena);
  for (int i = 0; i < 3; ++i) call();
  std::vector<double> seconds;
  for (int i = 0; i < kCalls; ++i) {
    device::synchronize_cuda();
    const double start = now_s();
    call();
    device::synchronize_cuda();
    seconds.push_back(now_s() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  return {.seconds = seconds[kCalls / 2], .peak_bytes = arena->report().peak};
}

std::vector<std::vector<int32_t>> draw_targets() {
  std::vector<std::vector<int32_t>> targets(kUtterances);
  for (int64_t row = 0; row < kRows; ++row) {
    targets[static_cast<size_t>(row * kUtterances / kRows)].push_back(
        static_cast<int32_t>(row * 7'919 % kVocabulary));
  }
  return targets;
}

class Bench {
 public:
  Bench()
      : packing_(std::vector<int64_t>(kUtterances, kRows / kUtterances), at::kCUDA),
        targets_(draw_targets(), at::kCUDA),
        x_(at::randn({kRows, kWidth}, options())),
        weight_(at::randn({kVocabulary, kWidth}, options()) * 0.02),
        grad_weight_(at::zeros({kVocabulary, kWidth}, options().dtype(at::kFloat))),
        table_({{"side"},
                {"ms", report::Align::kRight},
                {"theirs / ours", report::Align::kRight},
                {"peak", report::Align::kRight}}) {}

  void run() {
    const Measured theirs = run_theirs();
    add("ATen's linear and cross_entropy_loss", theirs, theirs);
    add("CrossEntropy", run_ours({}), theirs);
    add("CrossEntropy, frozen projection", run_ours({}, /*is_frozen=*/true), theirs);
    for (const int64_t mib : {16, 128, 256})
      add(fmt::format("CrossEntropy, chunks of {} MiB", mib), run_ours({.chunk_bytes = mib << 20}),
          theirs);
    add("CrossEntropy, whole", run_ours({.variant = CrossEntropy::Variant::kWhole}), theirs);
  }

  std::string to_string() const { return table_.to_string(); }

 private:
  static at::TensorOptions options() {
    return at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
  }

  // The mean over rows, as theirs.
  Measured run_ours(const CrossEntropy::Options& how, bool is_frozen = false) {
    const std::vector<float> weights(kUtterances, 1.0f / kRows);
    const CrossEntropy::Inputs in{
        .x = x_, .weight = weight_, .packing = packing_, .targets = targets_};
    return measure(
        [&] { CrossEntropy::forward(in, weights, is_frozen ? nullptr : &grad_weight_, how); });
  }

  Measured run_theirs() {
    at::Tensor x = x_.detach().set_requires_grad(true);
    at::Tensor weight = weight_.detach().set_requires_grad(true);
    const at::Tensor targets = targets_.device_values().to(at::kLong);
    return measure([&] {
      at::cross_entropy_loss(at::linear(x, weight), targets).backward();
      x.mutable_grad() = at::Tensor();
      weight.mutable_grad() = at::Tensor();
    });
  }

  void add(const std::string& name, const Measured& measured, const Measured& theirs) {
    table_.add_row({name, fmt::format("{:.3f}", 1e3 * measured.seconds),
                    fmt::format("{:.2f}", theirs.seconds / measured.seconds),
                    format_bytes(measured.peak_bytes)});
  }

  Packing packing_;
  Labels targets_;
  at::Tensor x_;            // [N, D]
  at::Tensor weight_;       // [V, D]
  at::Tensor grad_weight_;  // [V, D] fp32
  report::Table table_;
};

// cuBLAS takes its workspace at the first product of each kind and keeps it: that is no side's.
void warm_up_products() {
  const at::Tensor a =
      at::ones({64, 64}, at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16));
  at::Tensor sum = at::zeros({64, 64}, a.options().dtype(at::kFloat));
  at::mm(a, a);
  at::addmm_out(sum, sum, a, a, at::kFloat);
  device::synchronize_cuda();
}

}  // namespace

int main() {
  return sotto::bench::report_errors("gpu_cross_entropy", [] {
    const device::RunDevice device = device::open_device("cuda");
    warm_up_products();
    const auto arena = std::make_shared<device::Arena>(device::RegionKind::kCuda, int64_t{4} << 30);
    const device::ArenaGuard guard(at::kCUDA, arena);
    const device::TargetScope target(device.target);
    Bench bench;
    bench.run();
    fmt::print("{}: bf16, {} rows, {} entries, width {}\n{}", device.name, kRows, kVocabulary,
               kWidth, bench.to_string());
    return 0;
  });
}
