// What forward keeps for backward. A layer has named slots for the tensors that its backward can
// use, and one function per slot that computes it from the others; forward and backward call the
// same functions. A slot holds its tensors from their computation to their last use in forward
// (settle), where the layer's tier either keeps or frees them. In backward an empty slot is
// recomputed.
//
//   const at::Tensor& hidden = tape.get(kHidden, [&] { return linear.forward(norm()); });
//   ...
//   tape.settle(kHidden);    // last use in forward
//   tape.release(kHidden);   // last use in backward
//
// A tier is a set of slots that are kept: each slot names the first tier that frees it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/core/error.h"
#include "sotto/kernels/base/packing.h"
#include "sotto/nn/context.h"
#include "sotto/nn/host_tape.h"
#include "sotto/nn/shared_result.h"

namespace sotto::nn {

// From keeping everything to keeping only inputs, on the device or in host memory; docs/memory.md
// has the table.
enum class Tier { kNone, kNorms, kFfn, kQkv, kBlock, kHost };

inline constexpr std::array kTiers = {Named{"none", Tier::kNone},   Named{"norms", Tier::kNorms},
                                      Named{"ffn", Tier::kFfn},     Named{"qkv", Tier::kQkv},
                                      Named{"block", Tier::kBlock}, Named{"host", Tier::kHost}};

struct SlotSpec {
  std::string_view name;
  // The first tier that does not keep it; absent: every tier keeps it (a layer's input), `host` in
  // host memory where the layer settles it.
  std::optional<Tier> dropped_from = std::nullopt;
};

// The slots of one layer in one micro-batch.
class LayerTape {
 public:
  // Tensors that are computed together, such as a norm's result and its statistics.
  using Tensors = std::vector<at::Tensor>;

  // `slots` must outlive the tape: a constant of the layer. `host`: storage for tier `host`.
  LayerTape(std::span<const SlotSpec> slots, Tier tier, HostTape* host = nullptr);

  // Stores tensors that the layer does not compute itself: its input.
  void put(size_t slot, Tensors tensors);

  // Returns the slot's tensors, from `compute()` where it is empty. The reference is valid until
  // the slot is settled or released.
  template <class Compute>
  const Tensors& get(size_t slot, Compute compute) {
    if (values_.at(slot).empty()) put(slot, compute());
    return values_[slot];
  }

  // Returns the tensors of a slot that must be filled: an input.
  const Tensors& kept(size_t slot) const;

  // Called after the last use in forward. In backward it frees a recomputed slot only where it is
  // cheap to compute again (dropped from kNorms on): others are about to be used.
  void settle(size_t slot);

  // Called after the last use in backward.
  void release(size_t slot) { values_.at(slot).clear(); }

  // Moves out the tensors of a filled slot, for a caller that frees them one by one.
  Tensors take(size_t slot);

  // Marks the start of backward: from now on computing a slot is recomputation.
  void begin_backward() { is_backward_ = true; }

  // Start copying tensors back from host memory before backward, and return them to their slots.
  void fetch();
  void bring_back();

  Tier tier() const { return tier_; }

 private:
  std::span<const SlotSpec> slots_;
  Tier tier_;
  HostTape* host_;
  bool is_backward_ = false;
  std::vector<Tensors> values_;
  std::map<size_t, HostTape::Index> on_host_;  // by slot
};

// The tapes of all layers of a model for one micro-batch, filled by forward and emptied by
// backward. Owned by the step, so that an exception frees all kept tensors.
class Tape {
 public:
  // `tiers`: the tier of each layer by its number; kNone for layers beyond the last. Tier `host`
  // needs `host`, which must outlive the tape and serve no other tape at the same time.
  explicit Tape(std::vector<Tier> tiers = {}, HostTape* host = nullptr)
      : tiers_(std::move(tiers)), host_(host) {}
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // Returns an empty tape for a layer whose forward begins. A layer without backward frees all it
  // can.
  LayerTape& open(int64_t layer, std::span<const SlotSpec> slots, bool has_backward = true);
  // Returns the tape that the layer's forward filled, for its backward. Concurrently, tensors of
  // the layer before it start to be copied back from host memory.
  LayerTape& layer(int64_t layer);
  // Called when the layer's backward is complete.
  void close(int64_t layer);
  // The successive packs of the micro-batch, from first to last.
  void put_packings(std::vector<kernels::Packing> packings) { packings_ = std::move(packings); }
  const std::vector<kernels::Packing>& packings() const { return packings_; }

  // Returns the context of a layer that uses the last pack.
  Context context(const StepContext& step, int64_t layer) const {
    return {.step = step, .packing = packings_.back(), .layer = layer};
  }
  // The tensor that several layers read: an encoder's result, with the last pack.
  SharedResult& shared() { return shared_; }
  SeenPack seen() { return {.packing = packings_.back(), .result = shared_}; }

  int64_t num_open() const { return static_cast<int64_t>(layers_.size()); }

 private:
  std::vector<Tier> tiers_;
  HostTape* host_;
  std::vector<kernels::Packing> packings_;
  SharedResult shared_;
  std::map<int64_t, LayerTape> layers_;
};

}  // namespace sotto::nn
