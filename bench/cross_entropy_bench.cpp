// The loss of a language model through its projection, losses and gradients, against ATen's linear
// and cross_entropy_loss with autograd, which hold all logits. For information.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench_data.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "topics.h"

namespace sotto::bench {

namespace {

using kernels::CrossEntropy;
using kernels::Labels;
using kernels::Packing;

constexpr int64_t kRows = 512;
constexpr int64_t kWidth = 256;
constexpr int64_t kVocabulary = 50'000;

std::vector<int32_t> targets_of(int64_t num_rows) {
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < num_rows; ++i)
    targets.push_back(static_cast<int32_t>(i * 7'919 % kVocabulary));
  return targets;
}

struct LossData {
  explicit LossData(at::ScalarType type)
      : packing({kRows}, at::kCPU),
        targets({targets_of(kRows)}, at::kCPU),
        x(random_values({kRows, kWidth}, type)),
        weight((random_values({kVocabulary, kWidth}, at::kFloat) * 0.05).to(type)),
        grad_weight(at::zeros({kVocabulary, kWidth})),
        x_leaf(x.detach().set_requires_grad(true)),
        weight_leaf(weight.detach().set_requires_grad(true)),
        wide_targets(targets.device_values().to(at::kLong)) {}

  Packing packing;
  Labels targets;
  at::Tensor x;            // [N, D]
  at::Tensor weight;       // [V, D]
  at::Tensor grad_weight;  // [V, D] fp32
  // The same for autograd, and targets as ATen wants them, [N] int64.
  at::Tensor x_leaf;
  at::Tensor weight_leaf;
  at::Tensor wide_targets;
};

void run_ours(LossData& data) {
  const CrossEntropy::Result result = CrossEntropy::forward(
      {.x = data.x, .weight = data.weight, .packing = data.packing, .targets = data.targets},
      std::vector<float>{1.0f / kRows}, &data.grad_weight, {});
  keep(result.dx);
}

void run_theirs(LossData& data) {
  at::cross_entropy_loss(at::linear(data.x_leaf, data.weight_leaf), data.wide_targets).backward();
  for (at::Tensor* leaf : {&data.x_leaf, &data.weight_leaf}) {
    keep(leaf->grad());
    leaf->mutable_grad() = at::Tensor();
  }
}

Sides cross_entropy(at::ScalarType type) {
  const auto data = std::make_shared<LossData>(type);
  return in_one_arena(
      {.ours = [data] { run_ours(*data); }, .theirs = [data] { run_theirs(*data); }});
}

}  // namespace

std::vector<Pair> cross_entropy_pairs() {
  std::vector<Pair> pairs;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    pairs.push_back(
        {.topic = "cross_entropy",
         .shape = fmt::format("{}_{}_of_{}_{}", short_name(type), kRows, kVocabulary, kWidth),
         .make = [type] { return cross_entropy(type); }});
  }
  return pairs;
}

}  // namespace sotto::bench
