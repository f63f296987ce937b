// What the topics have in common: random inputs, short names of types, and work inside an arena.
#pragma once

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>

#include "ratio.h"
#include "sotto/device/torch_memory.h"

namespace sotto::bench {

// Normal values, the same on every run.
inline at::Tensor random_values(at::IntArrayRef sizes, at::ScalarType type) {
  at::manual_seed(1);
  return at::randn(sizes).to(type);
}

inline const char* short_name(at::ScalarType type) {
  return type == at::kFloat ? "fp32" : "bf16";
}

// A result that nobody reads but that has to be made.
inline void keep(const at::Tensor& result) {
  benchmark::DoNotOptimize(result.const_data_ptr());
}

// `work` with every allocation in the arena; without one as it is.
inline std::function<void()> with_arena(std::shared_ptr<device::Arena> arena,
                                        std::function<void()> work) {
  if (!arena) return work;
  return [arena = std::move(arena), work = std::move(work)] {
    const device::ArenaGuard guard(at::kCPU, arena);
    work();
  };
}

// Both sides in the same arena: only the kernels differ, not how memory comes back to them.
inline Sides in_one_arena(Sides sides) {
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kHost, int64_t{1} << 30);
  return {.ours = with_arena(arena, std::move(sides.ours)),
          .theirs = with_arena(arena, std::move(sides.theirs)),
          .take_peak_bytes = [arena] {
            const int64_t peak = arena->report().peak;
            arena->reset_peak();
            return peak;
          }};
}

}  // namespace sotto::bench
