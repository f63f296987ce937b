#include "sotto/nn/blocks/feed_forward.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>

#include "support/block_part.h"

namespace sotto::nn {
namespace {

using kernels::Packing;
using test::relative_error;

constexpr FeedForwardOptions kOptions = {.width = 12,
                                         .hidden = 20,
                                         .dropout = 0.0,
                                         .activation_dropout = 0.0,
                                         .scale = 0.5,
                                         .first_slot = 1};

constexpr std::array kSlots = test::slots_of_part<FeedForward>();

at::Tensor by_autograd(const at::Tensor& x, const test::Leaves& leaves, double scale) {
  const at::Tensor normed = at::layer_norm(x, {x.size(1)}, leaves.at("part.norm.weight"),
                                           leaves.at("part.norm.bias"), 1e-5);
  const at::Tensor hidden =
      at::addmm(leaves.at("part.in.bias"), normed, leaves.at("part.in.weight").t());
  return x + scale * at::addmm(leaves.at("part.out.bias"), at::silu(hidden),
                               leaves.at("part.out.weight").t());
}

TEST(FeedForward, MatchesAutogradAtEveryTier) {
  at::manual_seed(6);
  for (const double scale : {0.5, 1.0}) {
    FeedForwardOptions options = kOptions;
    options.scale = scale;
    for (const auto& [name, tier] : kTiers) {
      ParameterStore store;
      const FeedForward part(store, "part", options);
      test::expect_part_like_autograd(part, store, kSlots, tier, options.width,
                                      [&](const at::Tensor& x, const test::Leaves& leaves) {
                                        return by_autograd(x, leaves, scale);
                                      });
    }
  }
}

// A half step with dropout: the masked result of a whole step, halved.
TEST(FeedForward, ScalesWhatDropoutLeaves) {
  at::manual_seed(7);
  const Packing packing({5, 3}, at::kCPU);
  const at::Tensor x = at::randn({8, kOptions.width});
  const auto added = [&](double scale) {
    FeedForwardOptions options = kOptions;
    options.scale = scale;
    options.dropout = 0.4;
    ParameterStore store;
    const FeedForward part(store, "part", options);
    store.allocate({});
    LayerTape tape(kSlots, Tier::kNone);
    return part.result([&]() -> const at::Tensor& { return x; }, {.step = {}, .packing = packing},
                       tape) -
           x;
  };
  const at::Tensor whole = added(1.0), half = added(0.5);
  EXPECT_GT(whole.eq(0.0).sum().item<int64_t>(), 0);
  EXPECT_LT(relative_error(half, 0.5 * whole), 1e-6);
}

}  // namespace
}  // namespace sotto::nn
