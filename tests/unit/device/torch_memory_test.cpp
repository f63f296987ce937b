#include "sotto/device/torch_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>

#include "sotto/core/error.h"
#include "support/bytes.h"

namespace sotto::device {
namespace {

using test::kMiB;

TEST(ArenaGuard, PutsTensorsOfItsDeviceIntoTheArena) {
  const auto arena = std::make_shared<Arena>(RegionKind::kHost, 8 * kMiB);
  at::Tensor before = at::ones({1000});
  {
    const ArenaGuard guard(c10::kCPU, arena);
    const at::Tensor x = at::ones({256, 1024});
    EXPECT_EQ(arena->report().live, 1 * kMiB);
    EXPECT_EQ(x.sum().item<float>(), 256 * 1024);
    before =
        at::Tensor();  // frees a tensor of LibTorch's own allocator while the guard is in force
  }
  EXPECT_EQ(arena->report().live, 0);
  const at::Tensor after = at::ones({1000});
  EXPECT_EQ(arena->report().live, 0);
}

TEST(ArenaGuard, MetaTensorsArePlacedWithoutMemory) {
  const auto arena = std::make_shared<Arena>(RegionKind::kNothing, Arena::kUnlimited);
  const ArenaGuard guard(c10::kMeta, arena);
  const at::Tensor x = at::empty({int64_t{1} << 20, 1024}, at::TensorOptions().device(at::kMeta));
  EXPECT_EQ(arena->report().live, int64_t{4} << 30);
  const at::Tensor view = x.view({1024, -1});
  EXPECT_EQ(arena->report().live, int64_t{4} << 30);
}

TEST(ArenaGuard, GuardsNest) {
  const auto outer = std::make_shared<Arena>(RegionKind::kHost, kMiB);
  const auto inner = std::make_shared<Arena>(RegionKind::kHost, kMiB);
  const ArenaGuard outer_guard(c10::kCPU, outer);
  {
    const ArenaGuard inner_guard(c10::kCPU, inner);
    const at::Tensor x = at::empty({16});
    EXPECT_EQ(inner->num_blocks(), 1);
  }
  const at::Tensor x = at::empty({16});
  EXPECT_EQ(outer->num_blocks(), 1);
}

TEST(ArenaGuard, TensorMayOutliveItsGuardAndArenaOwner) {
  at::Tensor survivor;
  {
    const auto arena = std::make_shared<Arena>(RegionKind::kHost, kMiB);
    const ArenaGuard guard(c10::kCPU, arena);
    survivor = at::full({1000}, 3.0);
  }
  EXPECT_EQ(survivor.sum().item<float>(), 3000);
  survivor = at::Tensor();
}

TEST(ArenaGuard, BudgetHoldsAndTheProcessContinues) {
  const auto arena = std::make_shared<Arena>(RegionKind::kHost, 2 * kMiB);
  const ArenaGuard guard(c10::kCPU, arena);
  EXPECT_THROW(at::empty({kMiB}), OutOfMemory);
  EXPECT_EQ(arena->report().live, 0);
  const at::Tensor x = at::ones({1000});
  EXPECT_EQ(x.sum().item<float>(), 1000);
}

// ATen must not have disabled anything: products are bit-identical before and after an
// out-of-memory error, also in the types that use oneDNN.
TEST(ArenaGuard, ResultsAreUnchangedAfterOutOfMemory) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto arena = std::make_shared<Arena>(RegionKind::kHost, 16 * kMiB);
    const ArenaGuard guard(c10::kCPU, arena);
    const at::Tensor a = at::linspace(-1, 1, 200 * 256).view({200, 256}).to(type);
    const at::Tensor b = at::linspace(1, -2, 256 * 512).view({256, 512}).to(type);
    at::Tensor before = at::empty({200, 512}, a.options());
    at::Tensor after = at::empty({200, 512}, a.options());
    const auto product = [&](at::Tensor& result) {
      const LibraryCall call("product", c10::kCPU, 4 * kMiB);
      at::mm_out(result, a, b);
    };
    product(before);
    EXPECT_THROW(at::empty({16 * kMiB}), OutOfMemory);
    arena->inject_failure(1);
    EXPECT_THROW(product(after), OutOfMemory);
    product(after);
    EXPECT_TRUE(at::equal(before, after)) << c10::toString(type);
    EXPECT_EQ(arena->report().library_calls.at(0).num_breaches, 0);
  }
}

TEST(LibraryCall, HasNoEffectWithoutAnArena) {
  const LibraryCall call("product", c10::kCPU, kMiB);
  EXPECT_EQ(at::ones({10}).sum().item<float>(), 10);
}

}  // namespace
}  // namespace sotto::device
