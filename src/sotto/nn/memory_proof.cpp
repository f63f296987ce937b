#include "sotto/nn/memory_proof.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>

#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/device/torch_memory.h"

namespace sotto::nn {

namespace {

using device::Arena;
using device::Category;
using device::CategoryScope;

// One step, the same on every device: set-up, forward, backward.
void run_step(const FeedForwardOptions& options, const std::vector<int64_t>& lengths,
              const at::Device& device) {
  FeedForwardStack stack(options, device);
  const kernels::Packing packing(lengths, device);
  const auto type = at::TensorOptions().dtype(options.type).device(device);
  const auto make_data = [&] {
    const CategoryScope category(Category::kData);
    at::Tensor data = at::empty({packing.num_frames(), options.width}, type);
    if (!device.is_meta()) data.fill_(0.01);
    return data;
  };
  stack.forward(make_data(), packing, /*step=*/1);
  stack.backward(make_data(), packing, /*step=*/1);
}

struct Observed {
  device::MemoryReport report;
  double seconds = 0.0;
};

Observed observe(const FeedForwardOptions& options, const std::vector<int64_t>& lengths,
                 const at::Device& device, int64_t capacity_bytes) {
  const auto kind = device.is_meta() ? device::RegionKind::kNothing : device::RegionKind::kHost;
  const auto arena = std::make_shared<Arena>(kind, capacity_bytes);
  const auto start = std::chrono::steady_clock::now();
  {
    const device::ArenaGuard guard(device.type(), arena);
    run_step(options, lengths, device);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {arena->report(), elapsed.count()};
}

}  // namespace

bool MemoryProof::holds() const {
  const bool within_bounds =
      std::all_of(measured.library_calls.begin(), measured.library_calls.end(),
                  [](const device::LibraryUse& use) { return use.num_breaches == 0; });
  return within_bounds && predicted.peak == measured.peak &&
         predicted.at_peak == measured.at_peak && predicted.peak_moment == measured.peak_moment &&
         predicted.high_water == measured.high_water &&
         predicted.num_reservations == measured.num_reservations;
}

device::MemoryReport predict_memory(const FeedForwardOptions& stack,
                                    const std::vector<int64_t>& lengths) {
  return observe(stack, lengths, at::kMeta, Arena::kUnlimited).report;
}

MemoryProof prove_memory(const FeedForwardOptions& stack, const std::vector<int64_t>& lengths,
                         int64_t budget_bytes) {
  const Observed dry = observe(stack, lengths, at::kMeta, Arena::kUnlimited);
  const int64_t needed = dry.report.high_water;
  if (needed > budget_bytes) {
    throw OutOfMemory(
        {.attempted = fmt::format("proving the memory of {} blocks of width {} on {} frames",
                                  stack.num_layers, stack.width,
                                  std::accumulate(lengths.begin(), lengths.end(), int64_t{0})),
         .found = fmt::format("the step needs {}", format_bytes(needed)),
         .expected = fmt::format("at most the budget of {}", format_bytes(budget_bytes)),
         .hint = fmt::format("--memory {}B would do.", needed)});
  }
  const Observed real = observe(stack, lengths, at::kCPU, needed);
  return {.stack = stack,
          .lengths = lengths,
          .predicted = dry.report,
          .measured = real.report,
          .dry_seconds = dry.seconds,
          .real_seconds = real.seconds};
}

}  // namespace sotto::nn
