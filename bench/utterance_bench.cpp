// Kernels that work across frames: GroupNorm over utterances, the scatter of an embedding. For
// information.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench_data.h"
#include "sotto/kernels/elementwise/embedding.h"
#include "sotto/kernels/norm/group_norm.h"
#include "topics.h"

namespace sotto::bench {

namespace {

using kernels::Embedding;
using kernels::GroupNorm;
using kernels::Packing;

constexpr int64_t kUtterances = 2;
constexpr int64_t kFrames = 3000;
constexpr double kEpsilon = 1e-5;

struct GroupNormData {
  GroupNormData(int64_t channels, int64_t num_groups, at::ScalarType type)
      : groups(num_groups),
        packing(std::vector<int64_t>(kUtterances, kFrames), at::kCPU),
        x(random_values({kUtterances * kFrames, channels}, type)),
        dy(random_values({kUtterances * kFrames, channels}, type)),
        x_transposed(transposed(x)),
        dy_transposed(transposed(dy)),
        gamma(random_values({channels}, at::kFloat)),
        beta(random_values({channels}, at::kFloat)),
        grad_gamma(at::zeros({channels})),
        grad_beta(at::zeros({channels})) {}

  // [B, D, T]: the layout ATen's kernel is made for.
  static at::Tensor transposed(const at::Tensor& rows) {
    return rows.view({kUtterances, kFrames, rows.size(1)}).transpose(1, 2).contiguous();
  }

  int64_t groups;
  Packing packing;
  at::Tensor x, dy;                        // [N, D]
  at::Tensor x_transposed, dy_transposed;  // [B, D, T]
  at::Tensor gamma, beta;                  // [D] fp32
  at::Tensor grad_gamma, grad_beta;        // [D] fp32
};

void run_ours(GroupNormData& data) {
  const GroupNorm::Result result = GroupNorm::forward(
      data.x, data.packing,
      {.gamma = data.gamma, .beta = data.beta, .num_groups = data.groups, .epsilon = kEpsilon});
  keep(GroupNorm::backward(
      {.dy = data.dy, .x = data.x, .mean = result.mean, .rstd = result.rstd, .gamma = data.gamma},
      data.packing, {.gamma = data.grad_gamma, .beta = data.grad_beta}));
}

void run_theirs(GroupNormData& data) {
  const at::Tensor& x = data.x_transposed;
  const auto [y, mean, rstd] = at::native_group_norm(x, data.gamma, data.beta, x.size(0), x.size(1),
                                                     x.size(2), data.groups, kEpsilon);
  const auto [dx, d_gamma, d_beta] =
      at::native_group_norm_backward(data.dy_transposed, x, mean, rstd, data.gamma, x.size(0),
                                     x.size(1), x.size(2), data.groups, {true, true, true});
  data.grad_gamma.add_(d_gamma);
  data.grad_beta.add_(d_beta);
  keep(dx);
}

Sides group_norm(int64_t channels, int64_t groups, at::ScalarType type) {
  const auto data = std::make_shared<GroupNormData>(channels, groups, type);
  return {.ours = [data] { run_ours(*data); }, .theirs = [data] { run_theirs(*data); }};
}

Sides embedding_scatter(at::ScalarType type) {
  constexpr int64_t kEntries = 5000, kTokens = 1000, kWidth = 512;
  const at::Tensor ids = at::randint(kEntries, {kTokens}, at::kInt);
  const at::Tensor dy = random_values({kTokens, kWidth}, type);
  at::Tensor table = at::zeros({kEntries, kWidth}, type);
  return {.ours = [=]() mutable { Embedding::backward(dy, ids, table); },
          .theirs = [=]() mutable { table.index_add_(0, ids, dy); }};
}

}  // namespace

std::vector<Pair> utterance_pairs() {
  std::vector<Pair> pairs;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t groups : {512, 32}) {
      pairs.push_back({.topic = "group_norm",
                       .shape = fmt::format("{}_512_in_{}_2x3000", short_name(type), groups),
                       .make = [=] { return in_one_arena(group_norm(512, groups, type)); }});
    }
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    pairs.push_back({.topic = "embedding_scatter",
                     .shape = fmt::format("{}_5000x512_1000", short_name(type)),
                     .make = [=] { return in_one_arena(embedding_scatter(type)); }});
  }
  return pairs;
}

}  // namespace sotto::bench
