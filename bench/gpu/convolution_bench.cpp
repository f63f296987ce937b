// gpu_convolution: the convolution of wav2vec2's positions on a GPU in bf16, forward and backward,
// with blocks of several sizes, beside ATen's, which is cuDNN's. Useful arithmetic counts, without
// the zeros of our matrices; memory is the peak of a call, its results included.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "../program.h"
#include "sotto/device/run_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/convolution/grouped_convolution.h"
#include "sotto/report/table.h"
#include "timing.h"

namespace {

using namespace sotto;           // NOLINT: a program of one file
using namespace sotto::kernels;  // NOLINT

constexpr int64_t kWidth = 1024;
constexpr int64_t kGroups = 16;
constexpr int64_t kChannels = kWidth / kGroups;
constexpr int64_t kTaps = 128;
constexpr int64_t kUtterances = 32;
constexpr int64_t kFrames = 20'000;
constexpr int64_t kArenaBytes = int64_t{8} << 30;

// Of one product of the convolution: forward has one, backward two.
constexpr double kFlops = 2.0 * static_cast<double>(kFrames * kWidth * kChannels * kTaps);

// cuBLAS takes its workspace at the first product of each kind and keeps it: that is no call's.
void warm_up() {
  const at::Tensor a =
      at::ones({64, 64}, at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16));
  at::Tensor sum = at::zeros({64, 64}, a.options().dtype(at::kFloat));
  at::mm(a, a);
  at::addmm_out(sum, sum, a, a, at::kFloat);
  device::synchronize_cuda();
}

// Bytes that a call takes at its peak, in an arena of its own.
int64_t peak_bytes(const std::function<void()>& call) {
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kCuda, kArenaBytes);
  const device::ArenaGuard guard(at::kCUDA, arena);
  call();
  device::synchronize_cuda();
  return arena->report().peak;
}

class Bench {
 public:
  Bench()
      : table_({{"convolution"},
                {"pass"},
                {"ms", report::Align::kRight},
                {"TFLOP/s", report::Align::kRight},
                {"MiB", report::Align::kRight}}) {}

  void add(const std::string& name, const std::string& pass, double flops,
           const std::function<void()>& call) {
    const int64_t bytes = peak_bytes(call);
    const double seconds = bench::seconds_of(call, 5);
    table_.add_row({name, pass, fmt::format("{:.3f}", seconds * 1e3),
                    fmt::format("{:.1f}", flops / seconds / 1e12),
                    fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20))});
  }

  std::string to_string() const { return table_.to_string(); }

 private:
  report::Table table_;
};

void add_ours(Bench& bench, int64_t block) {
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
  const Packing packing(std::vector<int64_t>(kUtterances, kFrames / kUtterances), at::kCUDA);
  const at::Tensor x = at::randn({kFrames, kWidth}, options);
  const at::Tensor weight = at::randn({kWidth, kChannels, kTaps}, options);
  at::Tensor grad_weight = at::zeros(weight.sizes(), options.dtype(at::kFloat));
  const GroupedConvolution::Options blocks{.block = block};
  const std::string name =
      block == 0 ? fmt::format("default, {}", GroupedConvolution::default_block(weight))
                 : fmt::format("blocks of {}", block);
  bench.add(name, "forward", kFlops,
            [&] { GroupedConvolution::forward(x, weight, packing, blocks); });
  bench.add(name, "input gradient", kFlops,
            [&] { GroupedConvolution::input_gradient(x, weight, packing, blocks); });
  bench.add(name, "weight gradient", kFlops, [&] {
    GroupedConvolution::accumulate(grad_weight, {.dy = x, .x = x}, packing, blocks);
  });
}

// In the layout that it wants, the weight's gradient in bf16.
void add_theirs(Bench& bench) {
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
  constexpr int64_t kLength = kFrames / kUtterances;
  const at::Tensor x = at::randn({kUtterances, kWidth, kLength}, options);
  const at::Tensor dy = at::randn({kUtterances, kWidth, kLength + 1}, options);
  const at::Tensor weight = at::randn({kWidth, kChannels, kTaps}, options);
  bench.add("conv1d", "forward", kFlops,
            [&] { at::conv1d(x, weight, {}, 1, kTaps / 2, 1, kGroups); });
  const auto backward = [&](bool of_input) {
    at::convolution_backward(dy, x, weight, std::nullopt, {1}, {kTaps / 2}, {1}, false, {0},
                             kGroups, {of_input, !of_input, false});
  };
  bench.add("conv1d", "input gradient", kFlops, [&] { backward(true); });
  bench.add("conv1d", "weight gradient", kFlops, [&] { backward(false); });
}

}  // namespace

int main() {
  return sotto::bench::report_errors("gpu_convolution", [] {
    const device::RunDevice device = device::open_device("cuda");
    const device::TargetScope target(device.target);
    warm_up();
    const auto arena = std::make_shared<device::Arena>(device::RegionKind::kCuda, kArenaBytes);
    const device::ArenaGuard guard(at::kCUDA, arena);
    Bench bench;
    for (const int64_t block : {0, 8, 16, 32}) add_ours(bench, block);
    add_theirs(bench);
    fmt::print("{}\n{}", device.name, bench.to_string());
    return 0;
  });
}
