// The arena against LibTorch's own CPU allocator: the same training step in both.
#include <ATen/ATen.h>

#include "bench_data.h"
#include "sotto/nn/blocks/transformer_stack.h"
#include "topics.h"

namespace sotto::bench {

namespace {

using device::Arena;

// A stack with its data, and one step after another.
class Training {
 public:
  Training()
      : stack_(store_, "blocks", {.block = {.width = 256, .hidden = 1024, .num_layers = 4}}),
        packing_({420, 310, 260, 205, 130, 95, 60, 20}, at::kCPU),
        x_(random_values({packing_.num_frames(), 256}, at::kFloat)),
        dy_(random_values({packing_.num_frames(), 256}, at::kFloat)) {
    store_.allocate({});
  }

  void step() {
    ++step_;
    store_.zero_gradients();
    nn::Tape tape;
    const nn::Context context{.step = {.step = step_}, .packing = packing_};
    keep(stack_.forward(x_, context, tape));
    keep(stack_.backward(dy_, context, tape));
  }

 private:
  nn::ParameterStore store_;
  nn::TransformerStack stack_;
  kernels::Packing packing_;
  at::Tensor x_;
  at::Tensor dy_;
  uint64_t step_ = 0;
};

Sides training_step() {
  const auto arena = std::make_shared<Arena>(device::RegionKind::kHost, int64_t{1} << 30);
  std::shared_ptr<Training> inside;
  with_arena(arena, [&] { inside = std::make_shared<Training>(); })();
  const auto outside = std::make_shared<Training>();
  return {.ours = with_arena(arena, [inside] { inside->step(); }),
          .theirs = [outside] { outside->step(); }};
}

}  // namespace

std::vector<Pair> arena_pairs() {
  return {
      {.topic = "arena_step", .shape = "fp32_4x256_1500", .at_least = 0.98, .make = training_step}};
}

}  // namespace sotto::bench
