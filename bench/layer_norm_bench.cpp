// Norms over the width of each frame, forward and backward, with the parameters' gradients added to
// accumulators on both sides.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench_data.h"
#include "sotto/kernels/norm/layer_norm.h"
#include "sotto/kernels/norm/rms_norm.h"
#include "topics.h"

namespace sotto::bench {

namespace {

using kernels::LayerNorm;
using kernels::RmsNorm;

struct NormData {
  NormData(int64_t frames, int64_t width, at::ScalarType type)
      : x(random_values({frames, width}, type)),
        dy(random_values({frames, width}, type)),
        gamma(random_values({width}, at::kFloat)),
        beta(random_values({width}, at::kFloat)),
        grad_gamma(at::zeros({width})),
        grad_beta(at::zeros({width})) {}

  at::Tensor x, dy;                  // [N, D]
  at::Tensor gamma, beta;            // [D] fp32
  at::Tensor grad_gamma, grad_beta;  // [D] fp32
};

constexpr double kEpsilon = 1e-5;

void run_ours(NormData& data) {
  const LayerNorm::Result result =
      LayerNorm::forward(data.x, {.gamma = data.gamma, .beta = data.beta, .epsilon = kEpsilon});
  keep(LayerNorm::backward(
      {.dy = data.dy, .x = data.x, .mean = result.mean, .rstd = result.rstd, .gamma = data.gamma},
      {.gamma = data.grad_gamma, .beta = data.grad_beta}));
}

void run_theirs(NormData& data) {
  const int64_t width = data.x.size(1);
  const auto [y, mean, rstd] =
      at::native_layer_norm(data.x, {width}, data.gamma, data.beta, kEpsilon);
  const auto [dx, d_gamma, d_beta] = at::native_layer_norm_backward(
      data.dy, data.x, {width}, mean, rstd, data.gamma, data.beta, {true, true, true});
  data.grad_gamma.add_(d_gamma);
  data.grad_beta.add_(d_beta);
  keep(dx);
}

Sides layer_norm(int64_t frames, int64_t width, at::ScalarType type) {
  const auto data = std::make_shared<NormData>(frames, width, type);
  return {.ours = [data] { run_ours(*data); }, .theirs = [data] { run_theirs(*data); }};
}

// ATen has no backward of its own for this norm on the CPU: forward alone.
Sides rms_norm(int64_t frames, int64_t width, at::ScalarType type) {
  const auto data = std::make_shared<NormData>(frames, width, type);
  const at::Tensor gamma = data->gamma.to(type);
  return {
      .ours = [data] { keep(RmsNorm::forward(data->x, data->gamma, kEpsilon).y); },
      .theirs = [data, gamma] { keep(at::rms_norm(data->x, {data->x.size(1)}, gamma, kEpsilon)); }};
}

}  // namespace

std::vector<Pair> layer_norm_pairs() {
  std::vector<Pair> pairs;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t width : {256, 512, 1024}) {
      for (const int64_t frames : {200, 1500, 6000}) {
        pairs.push_back({.topic = "layer_norm",
                         .shape = fmt::format("{}_{}_{}", short_name(type), width, frames),
                         .at_least = 1.0,
                         .make = [=] { return in_one_arena(layer_norm(frames, width, type)); }});
      }
    }
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    pairs.push_back({.topic = "rms_norm_forward",
                     .shape = fmt::format("{}_512_1500", short_name(type)),
                     .make = [=] { return in_one_arena(rms_norm(1500, 512, type)); }});
  }
  return pairs;
}

}  // namespace sotto::bench
