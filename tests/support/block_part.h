// Compares a part of a block with autograd in double precision.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <span>
#include <string>

#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"
#include "support/tolerance.h"

namespace sotto::test {

// The parameters of a store by name, as leaves of autograd in double precision.
using Leaves = std::map<std::string, at::Tensor>;

inline Leaves leaves_of(const nn::ParameterStore& store) {
  Leaves leaves;
  for (const nn::Parameter& parameter : store.parameters()) {
    leaves[parameter.spec.name] =
        parameter.value.to(at::kDouble).detach().clone().set_requires_grad(true);
  }
  return leaves;
}

// The slots of a block with this part alone: its input, then the part's.
template <class Part>
constexpr auto slots_of_part() {
  std::array<nn::SlotSpec, 1 + Part::kSlots.size()> slots = {{{.name = "input"}}};
  for (size_t i = 0; i < Part::kSlots.size(); ++i) slots[i + 1] = Part::kSlots[i];
  return slots;
}

// Runs the part on utterances of 7, 1, 12 and 4 frames as a block of its own, and compares its
// result and all gradients with those of `truth(x [N, D], leaves)`.
template <class Part, class Truth>
void expect_part_like_autograd(const Part& part, nn::ParameterStore& store,
                               std::span<const nn::SlotSpec> slots, nn::Tier tier, int64_t width,
                               Truth truth) {
  constexpr double kTolerance = 2e-5;
  store.allocate({});
  for (nn::Parameter& parameter : store.parameters())
    parameter.value.add_(at::rand(parameter.value.sizes()) * 0.3);
  const kernels::Packing packing({7, 1, 12, 4}, at::kCPU);
  const at::Tensor x = at::randn({packing.num_frames(), width});
  const at::Tensor dy = at::randn_like(x);

  const Leaves leaves = leaves_of(store);
  const at::Tensor x_leaf = x.to(at::kDouble).set_requires_grad(true);
  const at::Tensor expected = truth(x_leaf, leaves);
  expected.backward(dy.to(at::kDouble));

  device::HostMemory host(at::kCPU);
  nn::HostTape on_host(host);
  nn::Tape tapes({tier}, &on_host);
  const nn::Context context{.step = {}, .packing = packing};
  nn::LayerTape& tape = tapes.open(context.layer, slots);
  tape.put(0, {x});
  const auto input = [&]() -> const at::Tensor& { return tape.kept(0).front(); };
  EXPECT_LT(relative_error(part.result(input, context, tape), expected.detach()), kTolerance);
  part.settle(tape);
  tape.settle(0);

  nn::LayerTape& filled = tapes.layer(context.layer);
  filled.begin_backward();
  part.release(filled);
  const at::Tensor dx = part.backward(dy, input, context, filled);
  tapes.close(context.layer);
  EXPECT_LT(relative_error(dx, x_leaf.grad()), kTolerance);
  for (const nn::Parameter& parameter : store.parameters()) {
    EXPECT_LT(relative_error(parameter.gradient, leaves.at(parameter.spec.name).grad()), kTolerance)
        << parameter.spec.name;
  }
}

}  // namespace sotto::test
