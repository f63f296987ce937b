#include "sotto/nn/tape.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sotto/core/files/log.h"

namespace sotto::nn {

LayerTape::LayerTape(std::span<const SlotSpec> slots, Tier tier, HostTape* host)
    : slots_(slots), tier_(tier), host_(host), values_(slots.size()) {}

void LayerTape::put(size_t slot, Tensors tensors) {
  SOTTO_ASSERT(!tensors.empty() && values_.at(slot).empty(), "slot '{}' is filled twice or empty",
               slots_[slot].name);
  values_[slot] = std::move(tensors);
}

const LayerTape::Tensors& LayerTape::kept(size_t slot) const {
  SOTTO_ASSERT(!values_.at(slot).empty(), "slot '{}' is empty: backward without its forward",
               slots_[slot].name);
  return values_[slot];
}

LayerTape::Tensors LayerTape::take(size_t slot) {
  kept(slot);
  return std::exchange(values_[slot], {});
}

void LayerTape::settle(size_t slot) {
  const std::optional<Tier> dropped_from = slots_[slot].dropped_from;
  const Tier tier = is_backward_ ? std::min(tier_, Tier::kNorms) : tier_;
  if (dropped_from && *dropped_from <= tier) release(slot);
  if (!dropped_from && tier == Tier::kHost) {
    SOTTO_ASSERT(host_ != nullptr && values_[slot].size() == 1,
                 "slot '{}' cannot be kept in host memory", slots_[slot].name);
    on_host_[slot] = host_->put(std::move(take(slot).front()));
  }
}

void LayerTape::fetch() {
  for (const auto& [slot, index] : on_host_) host_->fetch(index);
}

void LayerTape::bring_back() {
  for (const auto& [slot, index] : on_host_) put(slot, {host_->take(index)});
  on_host_.clear();
}

Tape::~Tape() {
  try {
    if (host_ != nullptr) host_->clear();
  } catch (const Error& error) {
    spdlog::debug("{}", error.what());  // a GPU that has failed reports it again at the next call
  }
}

LayerTape& Tape::open(int64_t layer, std::span<const SlotSpec> slots, bool has_backward) {
  const auto index = static_cast<size_t>(layer);
  Tier tier = index < tiers_.size() ? tiers_[index] : Tier::kNone;
  if (!has_backward) tier = Tier::kBlock;
  const auto [entry, is_new] = layers_.try_emplace(layer, slots, tier, host_);
  SOTTO_ASSERT(is_new, "forward of layer {} twice without a backward", layer);
  return entry->second;
}

LayerTape& Tape::layer(int64_t layer) {
  const auto entry = layers_.find(layer);
  SOTTO_ASSERT(entry != layers_.end(), "backward of layer {} without its forward", layer);
  entry->second.bring_back();
  if (entry != layers_.begin()) std::prev(entry)->second.fetch();
  return entry->second;
}

void Tape::close(int64_t layer) {
  layers_.erase(layer);
}

}  // namespace sotto::nn
