// What a layer has to know besides its tensors: the pack, where random numbers come from, and
// whether this is training.
#pragma once

#include <cstdint>

#include "sotto/core/rng.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/elementwise/dropout.h"
#include "sotto/nn/shared_result.h"

namespace sotto::nn {

// The part of a context that does not change from layer to layer.
struct StepContext {
  uint64_t seed = 1;
  // The update that this forward belongs to: with the seed, the utterance and the place in the
  // model it decides every dropout mask, however the step is split.
  uint64_t step = 0;
  int64_t micro_batch = 0;
  // Evaluation drops nothing and keeps nothing.
  bool is_training = true;
  // Off for dry runs of the worst that can come.
  bool drops_layers = true;

  // Whether a layer is left out, with the given probability: by the step alone, so that the split
  // into micro-batches does not show.
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
  // Of the layer in the model; keys its random numbers and names its moments.
  int64_t layer = 0;
  // A frozen layer has no backward, and keeps nothing for it.
  bool is_frozen = false;
  // For cross-attention: the pack it looks at.
  const SeenPack* seen = nullptr;

  bool has_backward() const { return step.is_training && !is_frozen; }

  Context at_layer(int64_t number) const { return {step, packing, number, false, seen}; }
  Context at_frozen_layer(int64_t number) const { return {step, packing, number, true, seen}; }

  // The dropout at one of up to kPlacesALayer places of this layer.
  static constexpr int64_t kPlacesALayer = 8;
  kernels::Dropout::Mask dropout(int64_t place, double probability) const {
    return {.key = {.seed = step.seed,
                    .purpose = Purpose::kDropout,
                    .step = step.step,
                    .layer = static_cast<uint64_t>(layer * kPlacesALayer + place)},
            .probability = step.is_training ? probability : 0.0};
  }

  device::Moment moment(device::Phase phase) const {
    return {.phase = phase, .micro_batch = step.micro_batch, .layer = layer};
  }
};

// dy [N, D] under a mask: a new tensor, because the residual connection needs dy as it is; dy
// itself where nothing is dropped.
inline at::Tensor dropped_gradient(const at::Tensor& dy, const Context& context,
                                   const kernels::Dropout::Mask& mask) {
  return mask.probability > 0.0 ? kernels::Dropout::applied(dy, context.packing, mask) : dy;
}

}  // namespace sotto::nn
