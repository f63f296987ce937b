#include "sotto/nn/fronts/subsampling.h"

#include <fmt/format.h>

#include <utility>

#include "sotto/core/error.h"

namespace sotto::nn {

namespace {

using device::MomentScope;
using device::Phase;
using kernels::FrameWindows;
using kernels::Packing;

// Slots of a stage: its input, its windows (copies, cheap to recompute), its product.
constexpr size_t kSlotsPerStage = 3;
constexpr size_t kMaxStages = 2;

constexpr std::array<SlotSpec, kSlotsPerStage * kMaxStages> kSlots = {{
    {.name = "features"},
    {.name = "windows1", .dropped_from = Tier::kNone},
    {.name = "product1", .dropped_from = Tier::kFfn},
    {.name = "activated1", .dropped_from = Tier::kNorms},
    {.name = "windows2", .dropped_from = Tier::kNone},
    {.name = "product2", .dropped_from = Tier::kFfn},
}};

constexpr size_t input_slot(size_t stage) {
  return stage * kSlotsPerStage;
}
constexpr size_t windows_slot(size_t stage) {
  return stage * kSlotsPerStage + 1;
}
constexpr size_t product_slot(size_t stage) {
  return stage * kSlotsPerStage + 2;
}

}  // namespace

Subsampling::Subsampling(ParameterStore& store, const std::string& name,
                         const SubsamplingOptions& options)
    : options_(options) {
  if (options.kind == SubsamplingKind::kStacking) {
    stages_.push_back({.windows = {.size = options.factor, .stride = options.factor, .before = 0},
                       .linear = Linear(store, name + ".projection",
                                        options.factor * options.num_features, options.width)});
    return;
  }
  SOTTO_ASSERT(options.factor == 2 || options.factor == 4, "convolutions with a factor of {}",
               options.factor);
  SOTTO_ASSERT(options.factor == 2 || !options.has_wide_first, "a third convolution");
  const auto num_stages =
      static_cast<size_t>(options.factor / 2) + (options.has_wide_first ? 1U : 0U);
  for (size_t stage = 0; stage < num_stages; ++stage) {
    const int64_t stride = options.has_wide_first && stage == 0 ? 1 : 2;
    const FrameWindows::Options windows{.size = 3, .stride = stride, .before = 1};
    const int64_t inputs = stage == 0 ? options.num_features : options.width;
    stages_.push_back({.windows = windows,
                       .linear = Linear(store, fmt::format("{}.conv{}", name, stage + 1),
                                        windows.size * inputs, options.width)});
  }
}

std::vector<Packing> Subsampling::packings_from(Packing frames) const {
  std::vector<Packing> packings;
  packings.reserve(stages_.size() + 1);
  packings.push_back(std::move(frames));
  for (const Stage& stage : stages_) {
    const Packing& before = packings.back();
    packings.emplace_back(FrameWindows::windowed_lengths(before.lengths(), stage.windows.stride),
                          before.device_starts().device(), before.keys());
  }
  return packings;
}

int64_t Subsampling::num_frames(int64_t frames) const {
  return (frames + options_.factor - 1) / options_.factor;
}

at::Tensor Subsampling::forward(at::Tensor x, Packings packings, const Context& context,
                                Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kForward));
  LayerTape& tape = tapes.open(context.layer, kSlots, context.has_backward());
  tape.put(input_slot(0), {std::move(x)});
  const size_t last = stages_.size() - 1;
  at::Tensor y = product(last, packings, tape);
  if (has_activation()) y = activate(options_.activation, y);
  tape.settle(product_slot(last));
  if (!context.has_backward()) tapes.close(context.layer);
  return y;
}

void Subsampling::backward(at::Tensor dy, Packings packings, const Context& context,
                           Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kBackward));
  LayerTape& tape = tapes.layer(context.layer);
  tape.begin_backward();
  for (size_t stage = stages_.size(); stage-- > 0;) {
    if (has_activation())
      activation_backward(options_.activation, dy, product(stage, packings, tape));
    tape.release(product_slot(stage));
    stages_[stage].linear.accumulate(dy, windows(stage, packings, tape));
    tape.release(windows_slot(stage));
    tape.release(input_slot(stage));
    if (stage == 0) break;
    at::Tensor d_windows = stages_[stage].linear.input_gradient(dy);
    dy = FrameWindows::backward(d_windows, ends_of(stage, packings), stages_[stage].windows);
  }
  tapes.close(context.layer);
}

FrameWindows::Packings Subsampling::ends_of(size_t stage, Packings packings) {
  return {.from = packings[stage], .to = packings[stage + 1]};
}

const at::Tensor& Subsampling::input(size_t stage, Packings packings, LayerTape& tape) const {
  if (stage == 0) return tape.kept(input_slot(0)).front();
  const auto compute = [&] {
    at::Tensor result = activate(options_.activation, product(stage - 1, packings, tape));
    tape.settle(product_slot(stage - 1));
    return LayerTape::Tensors{std::move(result)};
  };
  return tape.get(input_slot(stage), compute).front();
}

const at::Tensor& Subsampling::windows(size_t stage, Packings packings, LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor result = FrameWindows::forward(input(stage, packings, tape),
                                              ends_of(stage, packings), stages_[stage].windows);
    tape.settle(input_slot(stage));
    return LayerTape::Tensors{std::move(result)};
  };
  return tape.get(windows_slot(stage), compute).front();
}

const at::Tensor& Subsampling::product(size_t stage, Packings packings, LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor result = stages_[stage].linear.forward(windows(stage, packings, tape));
    tape.settle(windows_slot(stage));
    return LayerTape::Tensors{std::move(result)};
  };
  return tape.get(product_slot(stage), compute).front();
}

}  // namespace sotto::nn
