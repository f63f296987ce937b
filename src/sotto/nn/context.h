// What a layer needs in addition to its tensors: the pack, the keys of its random numbers, and
// whether this is training.
#pragma once

#include <cstdint>

#include "sotto/core/rng.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/elementwise/dropout.h"
#include "sotto/nn/relative_positions.h"
#include "sotto/nn/shared_result.h"

namespace sotto::nn {

// The part of a context that is the same for all layers.
struct StepContext {
  uint64_t seed = 1;
  // The update that this forward belongs to: together with the seed, the utterance and the position
  // in the model it determines every dropout mask, however the step is split.
  uint64_t step = 0;
  int64_t micro_batch = 0;
  // Evaluation applies no dropout and keeps nothing.
  bool is_training = true;
  // False in dry runs of the worst case.
  bool drops_layers = true;

  // Whether a layer is dropped, with the given probability: depends only on the step, not on its
  // split into micro-batches.
  bool drops_layer(int64_t layer, double probability) const {
    if (!is_training || !drops_layers || probability == 0.0) return false;
    const RandomKey key{.seed = seed,
                        .purpose = Purpose::kLayerDrop,
                        .step = step,
                        .layer = static_cast<uint64_t>(layer)};
    return RandomStream(key).bernoulli(0, probability);
  }
};

struct Context {
  StepContext step;
  const kernels::Packing& packing;
  // Number of the layer in the model; keys its random numbers and names its moments.
  int64_t layer = 0;
  // A frozen layer has no backward, and keeps nothing for it.
  bool is_frozen = false;
  // The pack that cross-attention attends to.
  const SeenPack* seen = nullptr;
  // The table of relative positions of the pack, for attention that uses it.
  const RelativePositions* positions = nullptr;

  bool has_backward() const { return step.is_training && !is_frozen; }

  Context at_layer(int64_t number) const { return {step, packing, number, false, seen, positions}; }
  Context at_frozen_layer(int64_t number) const {
    return {step, packing, number, true, seen, positions};
  }

  Context with_positions(const RelativePositions& table) const {
    return {step, packing, layer, is_frozen, seen, &table};
  }

  // Returns one of up to kMasksPerLayer dropout masks of this layer.
  static constexpr int64_t kMasksPerLayer = 8;
  kernels::Dropout::Mask dropout(int64_t index, double probability, double scale = 1.0) const {
    return {.key = {.seed = step.seed,
                    .purpose = Purpose::kDropout,
                    .step = step.step,
                    .layer = static_cast<uint64_t>(layer * kMasksPerLayer + index)},
            .probability = step.is_training ? probability : 0.0,
            .scale = scale};
  }

  device::Moment moment(device::Phase phase) const {
    return {.phase = phase, .micro_batch = step.micro_batch, .layer = layer};
  }
};

// Applies a mask to dy [N, D]: returns a new tensor, because the residual connection needs the
// original dy; dy itself where the mask changes nothing.
inline at::Tensor dropped_gradient(const at::Tensor& dy, const Context& context,
                                   const kernels::Dropout::Mask& mask) {
  return mask.changes_anything() ? kernels::Dropout::applied(dy, context.packing, mask) : dy;
}

}  // namespace sotto::nn
