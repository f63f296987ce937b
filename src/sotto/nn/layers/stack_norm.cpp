#include "sotto/nn/layers/stack_norm.h"

#include <array>
#include <utility>

namespace sotto::nn {

namespace {

using device::MomentScope;
using device::Phase;

enum NormSlot : size_t { kNormInput, kStatistics, kNumNormSlots };

// The statistics are two values per row.
constexpr std::array<SlotSpec, kNumNormSlots> kNormSlots = {{
    {.name = "input"},
    {.name = "statistics"},
}};

}  // namespace

at::Tensor StackNorm::forward(at::Tensor x, const Context& context, Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kForward));
  LayerTape::Tensors result = norm_.forward(x);
  at::Tensor y = std::exchange(result.front(), {});
  if (!context.has_backward()) return y;
  LayerTape& tape = tapes.open(context.layer, kNormSlots);
  tape.put(kNormInput, {std::move(x)});
  tape.put(kStatistics, std::move(result));
  tape.settle(kNormInput);
  return y;
}

at::Tensor StackNorm::backward(const at::Tensor& dy, const Context& context, Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kBackward));
  LayerTape& tape = tapes.layer(context.layer);
  tape.begin_backward();
  at::Tensor dx = norm_.backward(dy, tape.kept(kNormInput).front(), tape.kept(kStatistics));
  tapes.close(context.layer);
  return dx;
}

}  // namespace sotto::nn
