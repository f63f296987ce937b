// Measures the speed of the local device: matrix products, attention, memory passes, tiny kernels
// and copies, each with the kernels that training uses. Takes a few seconds; results are cached per
// device and binary.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sotto/device/run_device.h"
#include "sotto/kernels/base/cost.h"
#include "sotto/train/step/numerics.h"

namespace sotto::plan {

// Budget of a GPU measurement without a limit: it takes what it needs to be accurate.
inline constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();

// Applies the arithmetic. On a GPU the measurement stays within the budget, with smaller tensors
// where that is small. Throws Infeasible where there is no memory at all.
kernels::Rates measure_rates(const device::RunDevice& device, train::Compute compute,
                             int64_t budget_bytes = kNoBudget);

// Measures the rates and caches them per device and binary; separately where smaller tensors were
// used.
kernels::Rates calibrate(const device::RunDevice& device, train::Compute compute,
                         int64_t budget_bytes = kNoBudget);

// Returns the rates cached by this binary for this device; else measures them now.
kernels::Rates known_rates(const device::RunDevice& device, train::Compute compute,
                           int64_t budget_bytes = kNoBudget);

// Returns the compute types that a device supports, most exact first.
std::vector<train::Compute> computes_of(const device::Target& target);

}  // namespace sotto::plan
