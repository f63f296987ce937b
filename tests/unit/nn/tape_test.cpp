#include "sotto/nn/tape.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace sotto::nn {
namespace tape_test {

enum Slot : size_t { kInput, kNorm, kProduct };

constexpr std::array<SlotSpec, 3> kSlots = {{{.name = "input"},
                                             {.name = "norm", .dropped_from = Tier::kNorms},
                                             {.name = "product", .dropped_from = Tier::kFfn}}};

// A layer of two slots; counts how often each is computed.
struct Layer {
  LayerTape& tape;
  int norms = 0;
  int products = 0;

  const at::Tensor& norm() {
    const auto compute = [&] {
      ++norms;
      return LayerTape::Tensors{tape.kept(kInput).front() + 1};
    };
    return tape.get(kNorm, compute).front();
  }
  const at::Tensor& product() {
    const auto compute = [&] {
      ++products;
      at::Tensor result = norm() * 2;
      tape.settle(kNorm);
      return LayerTape::Tensors{result};
    };
    return tape.get(kProduct, compute).front();
  }
};

struct Counts {
  int norms;
  int products;

  friend bool operator==(const Counts&, const Counts&) = default;
};

Counts run(Tier tier) {
  device::HostMemory host(at::kCPU);
  HostTape on_host(host);
  Tape tape({tier}, &on_host);
  Layer layer{.tape = tape.open(0, kSlots)};
  layer.tape.put(kInput, {at::ones({1})});
  EXPECT_EQ(layer.product().item<float>(), 4.0f);
  layer.tape.settle(kProduct);
  layer.tape.begin_backward();
  EXPECT_EQ(layer.product().item<float>(), 4.0f);
  EXPECT_EQ(layer.norm().item<float>(), 2.0f);
  return {.norms = layer.norms, .products = layer.products};
}

TEST(Tape, TierDecidesWhatIsRecomputed) {
  EXPECT_EQ(run(Tier::kNone), (Counts{.norms = 1, .products = 1}));
  EXPECT_EQ(run(Tier::kNorms), (Counts{.norms = 2, .products = 1}));
  // In backward the norm is let go behind the product, and computed once more when asked for.
  EXPECT_EQ(run(Tier::kFfn), (Counts{.norms = 3, .products = 2}));
}

TEST(Tape, EnforcesItsOrder) {
  Tape tape;
  EXPECT_THROW(tape.layer(0), InternalError);
  LayerTape& layer = tape.open(0, kSlots);
  EXPECT_THROW(tape.open(0, kSlots), InternalError);
  EXPECT_THROW(layer.kept(kInput), InternalError);
  layer.put(kInput, {at::ones({1})});
  EXPECT_THROW(layer.put(kInput, {at::ones({1})}), InternalError);
  EXPECT_EQ(layer.take(kInput).size(), 1u);
  EXPECT_THROW(layer.take(kInput), InternalError);
  tape.close(0);
  EXPECT_EQ(tape.num_open(), 0);
}

TEST(Tape, TiersArePerLayer) {
  Tape tape({Tier::kNone, Tier::kBlock});
  EXPECT_EQ(tape.open(0, kSlots).tier(), Tier::kNone);
  EXPECT_EQ(tape.open(1, kSlots).tier(), Tier::kBlock);
  EXPECT_EQ(tape.open(2, kSlots).tier(), Tier::kNone);
}

}  // namespace tape_test
}  // namespace sotto::nn
