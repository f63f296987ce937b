// The depthwise convolution of a Conformer, forward and backward, beside ATen's. For information.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench_data.h"
#include "sotto/kernels/convolution/depthwise_convolution.h"
#include "topics.h"

namespace sotto::bench {

namespace {

using kernels::DepthwiseConvolution;
using kernels::Packing;

struct DepthwiseLayer {
  int64_t channels;
  int64_t taps;
};

struct DepthwiseData {
  DepthwiseData(const DepthwiseLayer& layer, const std::vector<int64_t>& lengths)
      : packing(lengths, at::kCPU),
        x(random_values({packing.num_frames(), layer.channels}, at::kFloat)),
        dy(random_values({packing.num_frames(), layer.channels}, at::kFloat)),
        weight(random_values({layer.channels, layer.taps}, at::kFloat)),
        grad_weight(at::zeros(weight.sizes())) {
    for (size_t u = 0; u < lengths.size(); ++u) {
      const auto channels_first = [&](const at::Tensor& rows) {
        return rows.narrow(0, packing.starts()[u], lengths[u]).t().unsqueeze(0).contiguous();
      };
      xs.push_back(channels_first(x));
      dys.push_back(channels_first(dy));
    }
  }

  Packing packing;
  at::Tensor x, dy;                 // [N, C]
  at::Tensor weight, grad_weight;   // [C, K]
  std::vector<at::Tensor> xs, dys;  // [1, C, T] each: the layout ATen's kernel is made for
};

void run_ours(DepthwiseData& data) {
  keep(DepthwiseConvolution::forward(data.x, {.weight = data.weight}, data.packing));
  keep(DepthwiseConvolution::input_gradient(data.dy, data.weight, data.packing));
  DepthwiseConvolution::accumulate({.weight = data.grad_weight}, {.dy = data.dy, .x = data.x},
                                   data.packing);
}

// Utterance by utterance.
void run_theirs(DepthwiseData& data) {
  for (size_t u = 0; u < data.xs.size(); ++u) {
    const at::Tensor x = data.xs[u].detach().set_requires_grad(true);
    const at::Tensor weight = data.weight.unsqueeze(1).detach().set_requires_grad(true);
    const at::Tensor y =
        at::conv1d(x, weight, {}, 1, data.weight.size(1) / 2, 1, data.weight.size(0));
    y.backward(data.dys[u]);
    data.grad_weight.add_(weight.grad().squeeze(1));
    keep(x.grad());
  }
}

Sides depthwise_convolution(const DepthwiseLayer& layer, const std::vector<int64_t>& lengths) {
  const auto data = std::make_shared<DepthwiseData>(layer, lengths);
  return {.ours = [data] { run_ours(*data); }, .theirs = [data] { run_theirs(*data); }};
}

}  // namespace

std::vector<Pair> depthwise_convolution_pairs() {
  struct Pack {
    const char* name;
    std::vector<int64_t> lengths;
  };
  std::vector<Pair> pairs;
  for (const DepthwiseLayer layer :
       {DepthwiseLayer{.channels = 256, .taps = 31}, DepthwiseLayer{.channels = 512, .taps = 31},
        DepthwiseLayer{.channels = 1024, .taps = 9}}) {
    for (const Pack& pack :
         {Pack{"1x500", {500}}, Pack{"8x100..750", {750, 100, 430, 220, 610, 160, 540, 300}}}) {
      pairs.push_back(
          {.topic = "depthwise_convolution",
           .shape = fmt::format("fp32_{}_{}_{}", layer.channels, layer.taps, pack.name),
           .make = [=] { return in_one_arena(depthwise_convolution(layer, pack.lengths)); }});
    }
  }
  return pairs;
}

}  // namespace sotto::bench
