#include "sotto/nn/feed_forward_stack.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/tolerance.h"

namespace sotto::nn {
namespace {

using test::relative_error;

// The stack in double precision by ATen and autograd, from the same parameters, without dropout.
struct Reference {
  at::Tensor y;
  at::Tensor dx;
  std::vector<at::Tensor> gradients;
};

Reference reference_of(FeedForwardStack& stack, const at::Tensor& x, const at::Tensor& dy) {
  std::vector<at::Tensor> leaves;
  for (Parameter* parameter : stack.parameters()) {
    leaves.push_back(parameter->value.to(at::kDouble).detach().clone().set_requires_grad(true));
  }
  const at::Tensor input = x.to(at::kDouble).detach().clone().set_requires_grad(true);
  at::Tensor y = input;
  for (size_t i = 0; i < leaves.size(); i += 6) {  // gamma, beta, weight1, weight2, bias1, bias2
    const at::Tensor norm = at::layer_norm(y, {y.size(1)}, leaves[i], leaves[i + 1], 1e-5);
    const at::Tensor hidden = at::gelu(at::addmm(leaves[i + 4], norm, leaves[i + 2].t()));
    y = y + at::addmm(leaves[i + 5], hidden, leaves[i + 3].t());
  }
  y.backward(dy.to(at::kDouble));
  Reference reference{.y = y.detach(), .dx = input.grad(), .gradients = {}};
  for (const at::Tensor& leaf : leaves) reference.gradients.push_back(leaf.grad());
  return reference;
}

TEST(FeedForwardStack, BackwardIsAutograds) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    FeedForwardStack stack(
        {.num_layers = 3, .width = 24, .hidden = 40, .dropout = 0.0, .type = type}, at::kCPU);
    const kernels::Packing packing({5, 9, 3}, at::kCPU);
    at::manual_seed(1);
    const at::Tensor x = at::randn({17, 24}).to(type);
    const at::Tensor dy = at::randn({17, 24}).to(type);
    const Reference truth = reference_of(stack, x, dy);
    // Three blocks of rounded 16-bit activations add their errors up.
    const double tolerance = (type == at::kFloat ? 2.0 : 4.0) * test::kernel_tolerance(type);
    EXPECT_LT(relative_error(stack.forward(x.clone(), packing, 1), truth.y), tolerance);
    EXPECT_LT(relative_error(stack.backward(dy.clone(), packing, 1), truth.dx), tolerance);
    const std::vector<Parameter*> parameters = stack.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_LT(relative_error(parameters[i]->gradient, truth.gradients[i]), tolerance)
          << "parameter " << i;
    }
  }
}

TEST(FeedForwardStack, GradientsAddUpUntilZeroed) {
  FeedForwardStack stack({.num_layers = 1, .width = 8, .hidden = 16}, at::kCPU);
  const kernels::Packing packing({4}, at::kCPU);
  const at::Tensor x = at::linspace(-1, 1, 32).view({4, 8});
  const auto run = [&] {
    stack.forward(x.clone(), packing, 1);
    stack.backward(at::ones({4, 8}), packing, 1);
  };
  run();
  const at::Tensor once = stack.parameters()[2]->gradient.clone();
  run();
  EXPECT_LT(relative_error(stack.parameters()[2]->gradient, 2 * once), 1e-6);
  stack.zero_gradients();
  EXPECT_EQ(stack.parameters()[2]->gradient.abs().max().item<float>(), 0.0f);
}

TEST(FeedForwardStack, BackwardNeedsAForward) {
  FeedForwardStack stack({.num_layers = 1, .width = 8, .hidden = 16}, at::kCPU);
  const kernels::Packing packing({4}, at::kCPU);
  EXPECT_THROW(stack.backward(at::ones({4, 8}), packing, 1), InternalError);
}

}  // namespace
}  // namespace sotto::nn
