// The prediction network of a transducer takes dry what it takes in reality, at every tier and in
// every type.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "sotto/device/torch_memory.h"
#include "sotto/kernels/base/labels.h"
#include "sotto/nn/heads/prediction_network.h"

namespace sotto::test {
namespace {

using nn::PredictionNetwork;
using nn::Tier;

constexpr int64_t kWidth = 40;

// Tokens 0, 1, .. on the device, modulo the vocabulary.
at::Tensor tokens_on(at::DeviceType device, int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i % 29));
  return kernels::Labels({tokens}, device).device_values();
}

void train_once(const PredictionNetwork& network, at::ScalarType type, at::DeviceType device,
                Tier tier) {
  device::HostMemory host(device);
  nn::HostTape on_host(host);
  nn::Tape tape({tier, tier}, &on_host);
  const kernels::Packing packing({30, 1, 17, 30}, device);
  const at::Tensor tokens = tokens_on(device, packing.num_frames());
  const PredictionNetwork::Rows rows{.tokens = tokens, .packing = packing};
  at::Tensor dy = network.forward(rows, {}, tape);
  EXPECT_EQ(dy.scalar_type(), type);
  network.backward(std::move(dy), rows, {}, tape);
}

void decode_once(const PredictionNetwork& network, at::DeviceType device) {
  PredictionNetwork::State state = network.make_state(6, device);
  const at::Tensor rows = tokens_on(device, 5);
  network.step({.tokens = rows, .from = rows, .to = rows}, state);
}

device::MemoryReport observe_prediction(at::ScalarType type, at::DeviceType device, Tier tier) {
  const bool dry = device == at::kMeta;
  const auto arena = std::make_shared<device::Arena>(
      dry ? device::RegionKind::kNothing : device::RegionKind::kHost,
      dry ? device::Arena::kUnlimited : 64 << 20);
  const device::ArenaGuard guard(device, arena);
  {
    nn::ParameterStore store;
    const PredictionNetwork network(
        store, "prediction",
        {.vocabulary = 30, .blank = 29, .width = kWidth, .trains_blank = false, .compute = type});
    store.allocate(
        {.device = device, .weights = type == at::kHalf ? at::kFloat : type, .small_below = 1});
    train_once(network, type, device, tier);
    decode_once(network, device);
  }
  EXPECT_EQ(arena->num_blocks(), 0);
  return arena->report();
}

TEST(PredictionMemory, DryEqualsMeasuredAtEveryTier) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const auto& [name, tier] : nn::kTiers) {
      const device::MemoryReport dry = observe_prediction(type, at::kMeta, tier);
      const device::MemoryReport real = observe_prediction(type, at::kCPU, tier);
      EXPECT_EQ(dry.peak, real.peak) << type << " " << name;
      EXPECT_EQ(dry.high_water, real.high_water) << type << " " << name;
      EXPECT_EQ(dry.at_peak, real.at_peak) << type << " " << name;
      EXPECT_EQ(dry.num_reservations, real.num_reservations) << type << " " << name;
      for (const device::LibraryUse& use : real.library_calls)
        EXPECT_EQ(use.num_breaches, 0) << use.name << " " << type << " " << name;
    }
  }
}

// Bytes that two layers keep between forward and backward, for 1,000 rows.
int64_t kept_bytes(Tier tier) {
  const auto arena =
      std::make_shared<device::Arena>(device::RegionKind::kNothing, device::Arena::kUnlimited);
  const device::ArenaGuard guard(at::kMeta, arena);
  nn::ParameterStore store;
  const PredictionNetwork network(
      store, "prediction", {.vocabulary = 30, .blank = 29, .width = 64, .compute = at::kBFloat16});
  store.allocate({.device = at::kMeta, .weights = at::kBFloat16, .small_below = 1});
  const kernels::Packing packing({600, 400}, at::kMeta);
  const at::Tensor tokens = tokens_on(at::kMeta, 1'000);
  device::HostMemory host(at::kMeta);
  nn::HostTape on_host(host);
  nn::Tape tape({tier, tier}, &on_host);
  const int64_t before = arena->report().live;
  network.forward({.tokens = tokens, .packing = packing}, {}, tape);
  return arena->report().live - before;
}

TEST(PredictionMemory, BlockKeepsTheInputsAlone) {
  // Per row and unit of width: the input, four gates and the hidden state in bf16, the cell in
  // fp32.
  EXPECT_EQ(kept_bytes(Tier::kNone), 2 * 1'000 * 64 * (2 + 8 + 2 + 4));
  EXPECT_EQ(kept_bytes(Tier::kQkv), kept_bytes(Tier::kNone));
  EXPECT_EQ(kept_bytes(Tier::kBlock), 2 * 1'000 * 64 * 2);
  // The last input stays until the next one leaves.
  EXPECT_EQ(kept_bytes(Tier::kHost), 1'000 * 64 * 2);
}

}  // namespace
}  // namespace sotto::test
