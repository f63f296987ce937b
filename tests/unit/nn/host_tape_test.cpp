#include "sotto/nn/host_tape.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/device/torch_memory.h"
#include "support/thrown.h"

namespace sotto::nn {
namespace {

using device::HostMemory;

TEST(HostTape, RestoresWhatWasOffloaded) {
  HostMemory memory(at::kCPU);
  HostTape tape(memory);
  for (const int64_t rows : {3, 700, 5}) {  // micro-batch after micro-batch
    std::vector<at::Tensor> inputs;
    std::vector<HostTape::Index> indices;
    for (int64_t layer = 0; layer < 4; ++layer) {
      const at::Tensor x = at::arange(rows * 8).view({rows, 8}).to(at::kBFloat16) + layer;
      inputs.push_back(x.clone());
      indices.push_back(tape.put(x.clone()));
    }
    for (size_t layer = 4; layer-- > 0;) {
      const at::Tensor back = tape.take(indices[layer]);
      if (layer > 0) tape.fetch(indices[layer - 1]);
      EXPECT_TRUE(at::equal(back, inputs[layer]));
    }
    tape.clear();
  }
  EXPECT_EQ(memory.used_bytes(), int64_t{4} << 20) << "kept for the next micro-batch";
  tape.release();
  EXPECT_EQ(memory.used_bytes(), 0);
}

// Three inputs are on the device: one being copied out, one in use, one being copied in.
TEST(HostTape, FreesTheDevice) {
  constexpr int64_t kBytes = 64 << 10;
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kHost, 64 * kBytes);
  const device::ArenaGuard guard(at::kCPU, arena);
  HostMemory memory(at::kCPU);
  HostTape tape(memory);
  std::vector<HostTape::Index> indices;
  for (int layer = 0; layer < 10; ++layer) {
    indices.push_back(tape.put(at::zeros({kBytes}, at::kByte)));
    EXPECT_EQ(arena->report().live, kBytes) << "behind layer " << layer;
  }
  arena->reset_peak();
  for (size_t layer = indices.size(); layer-- > 0;) {
    const at::Tensor back = tape.take(indices[layer]);
    if (layer > 0) tape.fetch(indices[layer - 1]);
  }
  EXPECT_EQ(arena->report().peak, 2 * kBytes);
  EXPECT_EQ(arena->report().live, 0);
}

// After a step failed halfway, nothing of it is left on the device.
TEST(HostTape, IsClearedAfterAFailedMicroBatch) {
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kHost, 1 << 20);
  const device::ArenaGuard guard(at::kCPU, arena);
  HostMemory memory(at::kCPU);
  HostTape tape(memory);
  const HostTape::Index first = tape.put(at::zeros({1'000}, at::kByte));
  tape.put(at::zeros({1'000}, at::kByte));
  tape.fetch(first);
  tape.clear();
  EXPECT_EQ(arena->report().live, 0);
  EXPECT_EQ(tape.put(at::zeros({10}, at::kByte)), 0u);
}

TEST(HostMemory, HasABudget) {
  HostMemory memory(at::kCPU, 1'000);
  {
    const device::HostBlock block = memory.allocate(900, "for a test");
    ASSERT_NE(block.data(), nullptr);
    const std::string text =
        test::message_of<OutOfMemory>([&] { memory.allocate(101, "for a test"); });
    EXPECT_PRED2(test::contains, text, "for a test");
    EXPECT_PRED2(test::contains, text, "--host-memory");
    EXPECT_EQ(memory.used_bytes(), 900);
  }
  EXPECT_EQ(memory.used_bytes(), 0);
  EXPECT_EQ(memory.peak_bytes(), 900);
  HostMemory dry(at::kMeta);
  EXPECT_EQ(dry.allocate(int64_t{1} << 40, "for a test").data(), nullptr) << "only counted";
}

}  // namespace
}  // namespace sotto::nn
