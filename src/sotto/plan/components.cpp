#include "sotto/plan/components.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "sotto/optim/state.h"
#include "sotto/plan/calibration.h"

namespace sotto::plan {

namespace {

using device::Category;
using train::Numerics;

std::vector<Numerics> numerics_of(const device::Target& target) {
  if (target.is_cuda() && !target.has_bf16()) return {Numerics::kFp32, Numerics::kFp16};
  return {Numerics::kFp32, Numerics::kBf16Exact, Numerics::kBf16Lean};
}

// A CPU without bf16 instructions would take minutes to measure its bf16 rates.
bool is_slow_to_measure(train::Compute compute, const device::Target& target) {
  const std::vector<train::Compute> measured = computes_of(target);
  return !target.is_cuda() && std::ranges::find(measured, compute) == measured.end();
}

struct StateBytes {
  int64_t momentum = 0;
  int64_t variance = 0;
  int64_t remainder = 0;
};

// Sums over all trainable parameters, including the scales of 8-bit moments.
StateBytes state_bytes(const train::RunConfig& config, const models::DataShape& shape) {
  const train::Learner learner(config, shape, at::kMeta);
  const auto bytes_of = [](const at::Tensor& tensor) {
    return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
  };
  StateBytes bytes;
  for (const auto& [name, arrays] : learner.optimizer.states()) {
    bytes.momentum += bytes_of(arrays.first_moment) + bytes_of(arrays.first_scales);
    bytes.variance += bytes_of(arrays.second_moment) + bytes_of(arrays.second_scales);
    bytes.remainder += bytes_of(arrays.remainder);
  }
  return bytes;
}

// Returns the max_frames of the candidate, or a larger value, so that gradients of any type may be
// summed over a step.
int64_t frames_for_all(const Candidate& candidate, const PlanRequest& request,
                       const data::Source& source) {
  constexpr int64_t kMostPieces = train::kMaxBf16Sums * 3 / 4;
  if (candidate.config.max_frames == 0) return 0;
  train::DryRun dry(candidate.config, request.shape, train::DryRun::Purpose::kTraining,
                    request.target);
  train::BudgetFit fit(dry, source, {.bytes = device::Arena::kUnlimited});
  const int64_t frames = fit.measure_largest(candidate.config.effective_batch).frames;
  return std::max(candidate.config.max_frames, frames / kMostPieces);
}

}  // namespace

std::vector<Components> components_of(const Candidate& candidate, const PlanRequest& request,
                                      const data::Source& source) {
  std::vector<Components> all;
  const int64_t max_frames = frames_for_all(candidate, request, source);
  for (const Numerics numerics : numerics_of(request.target)) {
    PlanRequest fixed = request;
    fixed.config = candidate.config;
    fixed.config.numerics = numerics;
    fixed.config.max_frames = max_frames;
    fixed.config.optimizer.state = optim::StateLocation::kDevice;
    fixed.open = {.numerics = false,
                  .state = false,
                  .tier = false,
                  .max_frames = false,
                  .micro_batch = false,
                  .loss_rows = false};
    fixed.budget = {.bytes = device::Arena::kUnlimited};
    const bool is_timed = !is_slow_to_measure(fixed.config.arithmetic().compute, request.target);
    // Every choice is made already, so that the rates change nothing but the time.
    if (!is_timed)
      fixed.rates = [&request](train::Compute) { return request.rates(train::Compute::kFp32); };
    const Candidate alone = Planner(fixed, source).plan().best;
    const device::MemoryReport& worst = alone.fit.worst;
    const auto at = [&](Category category) { return worst.at_peak[static_cast<size_t>(category)]; };
    const StateBytes state = state_bytes(fixed.config, request.shape);
    Components& components =
        all.emplace_back(Components{.numerics = numerics,
                                    .weights = at(Category::kWeights),
                                    .remainder = state.remainder,
                                    .gradients = at(Category::kGradients),
                                    .momentum = state.momentum,
                                    .variance = state.variance,
                                    .activations = at(Category::kActivations)});
    if (is_timed) components.speed = alone.speed();
    components.other = worst.high_water - components.total();
  }
  return all;
}

}  // namespace sotto::plan
