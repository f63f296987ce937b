// The convolution of wav2vec2's positions, forward and backward, beside ATen's. For information.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench_data.h"
#include "sotto/kernels/convolution/grouped_convolution.h"
#include "topics.h"

namespace sotto::bench {

namespace {

using kernels::GroupedConvolution;
using kernels::Packing;

constexpr int64_t kWidth = 768;
constexpr int64_t kGroups = 16;
constexpr int64_t kTaps = 128;

struct ConvolutionData {
  explicit ConvolutionData(const std::vector<int64_t>& lengths)
      : packing(lengths, at::kCPU),
        x(random_values({packing.num_frames(), kWidth}, at::kFloat)),
        dy(random_values({packing.num_frames(), kWidth}, at::kFloat)),
        weight(random_values({kWidth, kWidth / kGroups, kTaps}, at::kFloat)),
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
  at::Tensor x, dy;                 // [N, D]
  at::Tensor weight, grad_weight;   // [D, C, K]
  std::vector<at::Tensor> xs, dys;  // [1, D, T] each: the layout ATen's kernel is made for
};

void run_ours(ConvolutionData& data) {
  const GroupedConvolution::Options options;
  keep(GroupedConvolution::forward(data.x, data.weight, data.packing, options));
  keep(GroupedConvolution::input_gradient(data.dy, data.weight, data.packing, options));
  GroupedConvolution::accumulate(data.grad_weight, {.dy = data.dy, .x = data.x}, data.packing,
                                 options);
}

// Utterance by utterance, the last output of each dropped: its gradient is zero.
void run_theirs(ConvolutionData& data) {
  for (size_t u = 0; u < data.xs.size(); ++u) {
    const at::Tensor x = data.xs[u].detach().set_requires_grad(true);
    const at::Tensor weight = data.weight.detach().set_requires_grad(true);
    const at::Tensor y = at::conv1d(x, weight, {}, 1, kTaps / 2, 1, kGroups);
    y.narrow(2, 0, x.size(2)).backward(data.dys[u]);
    data.grad_weight.add_(weight.grad());
    keep(x.grad());
  }
}

Sides grouped_convolution(const std::vector<int64_t>& lengths) {
  const auto data = std::make_shared<ConvolutionData>(lengths);
  return {.ours = [data] { run_ours(*data); }, .theirs = [data] { run_theirs(*data); }};
}

}  // namespace

std::vector<Pair> grouped_convolution_pairs() {
  struct Pack {
    const char* name;
    std::vector<int64_t> lengths;
  };
  std::vector<Pair> pairs;
  for (const Pack& pack :
       {Pack{"1x500", {500}}, Pack{"8x100..750", {750, 100, 430, 220, 610, 160, 540, 300}}}) {
    pairs.push_back({.topic = "grouped_convolution",
                     .shape = fmt::format("fp32_768_{}", pack.name),
                     .make = [=] { return in_one_arena(grouped_convolution(pack.lengths)); }});
  }
  return pairs;
}

}  // namespace sotto::bench
