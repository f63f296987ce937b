// gpu_depthwise: the depthwise convolution of a Conformer on a GPU in bf16, forward and backward,
// beside ATen's, on packed rows and on [B, C, T]. Bytes are those that each of our kernels reports
// as its cost; "of a copy" compares them with a copy of the device's own memory.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "../program.h"
#include "sotto/device/run_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/base/cost.h"
#include "sotto/kernels/convolution/depthwise_convolution.h"
#include "sotto/report/table.h"
#include "timing.h"

namespace {

using namespace sotto;           // NOLINT: a program of one file
using namespace sotto::kernels;  // NOLINT

constexpr int64_t kUtterances = 32;
constexpr int64_t kLength = 625;
constexpr int64_t kFrames = kUtterances * kLength;
constexpr int kCalls = 20;

struct Layer {
  int64_t channels;
  int64_t taps;
};

at::TensorOptions on_gpu() {
  return at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
}

class Bench {
 public:
  Bench()
      : table_({{"layer"},
                {"pass"},
                {"ours, ms", report::Align::kRight},
                {"of a copy", report::Align::kRight},
                {"theirs, ms", report::Align::kRight},
                {"ratio", report::Align::kRight}}) {
    const int64_t bytes = int64_t{2} << 30;
    const at::Tensor from = at::ones({bytes}, on_gpu().dtype(at::kByte));
    at::Tensor to = at::empty_like(from);
    const double seconds = bench::seconds_of([&] { to.copy_(from); }, kCalls);
    copied_per_s_ = 2.0 * static_cast<double>(bytes) / seconds;
  }

  void add(const Layer& layer, const std::string& pass, const std::function<void()>& ours,
           const std::function<void()>& theirs) {
    double bytes = 0.0;
    {
      const CostRecorder recorder;
      ours();
      bytes = recorder.total().total.bytes;
    }
    const double our_s = bench::seconds_of(ours, kCalls);
    const double their_s = bench::seconds_of(theirs, kCalls);
    table_.add_row({fmt::format("{} channels, {} taps", layer.channels, layer.taps), pass,
                    fmt::format("{:.3f}", our_s * 1e3),
                    fmt::format("{:.0f} %", 100.0 * bytes / our_s / copied_per_s_),
                    fmt::format("{:.3f}", their_s * 1e3), fmt::format("{:.1f}", their_s / our_s)});
  }

  std::string to_string() const { return table_.to_string(); }

 private:
  report::Table table_;
  double copied_per_s_ = 0.0;
};

void add_layer(Bench& bench, const Layer& layer) {
  const Packing packing(std::vector<int64_t>(kUtterances, kLength), at::kCUDA);
  const at::Tensor x = at::randn({kFrames, layer.channels}, on_gpu());
  const at::Tensor weight = at::randn({layer.channels, layer.taps}, on_gpu());
  at::Tensor grad_weight = at::zeros(weight.sizes(), on_gpu().dtype(at::kFloat));
  // In the layout that it wants, the weight's gradient in bf16.
  const at::Tensor channels_first = at::randn({kUtterances, layer.channels, kLength}, on_gpu());
  const at::Tensor filters = weight.unsqueeze(1);
  const auto backward = [&](bool of_input) {
    at::convolution_backward(channels_first, channels_first, filters, std::nullopt, {1},
                             {layer.taps / 2}, {1}, false, {0}, layer.channels,
                             {of_input, !of_input, false});
  };
  bench.add(
      layer, "forward", [&] { DepthwiseConvolution::forward(x, {.weight = weight}, packing); },
      [&] { at::conv1d(channels_first, filters, {}, 1, layer.taps / 2, 1, layer.channels); });
  bench.add(
      layer, "input gradient", [&] { DepthwiseConvolution::input_gradient(x, weight, packing); },
      [&] { backward(true); });
  bench.add(
      layer, "weight gradient",
      [&] {
        DepthwiseConvolution::accumulate({.weight = grad_weight}, {.dy = x, .x = x}, packing);
      },
      [&] { backward(false); });
}

}  // namespace

int main() {
  return sotto::bench::report_errors("gpu_depthwise", [] {
    const device::RunDevice device = device::open_device("cuda");
    const auto arena =
        std::make_shared<device::Arena>(device::RegionKind::kCuda, int64_t{16} << 30);
    const device::ArenaGuard guard(at::kCUDA, arena);
    const device::TargetScope target(device.target);
    Bench bench;
    for (const Layer layer : {Layer{256, 31}, Layer{512, 31}, Layer{512, 9}, Layer{1024, 9}})
      add_layer(bench, layer);
    fmt::print("{}\n{}", device.name, bench.to_string());
    return 0;
  });
}
