// How fast the device at hand is: a handful of products, attention, passes over memory, tiny
// kernels and copies, each measured with the kernels that training uses. Takes a few seconds; what
// was measured is kept for the same device and binary.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sotto/device/run_device.h"
#include "sotto/kernels/base/cost.h"
#include "sotto/train/step/numerics.h"

namespace sotto::plan {

// What a measurement may take on a GPU; without a budget, what it needs to be exact.
inline constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();

// Puts the arithmetic in force. On a GPU it measures inside the budget, with smaller tensors where
// that is small. Throws Infeasible where there is no room at all.
kernels::Rates measure_rates(const device::RunDevice& device, train::Compute compute,
                             int64_t budget_bytes = kNoBudget);

// The same, and kept for the same device and binary; apart where smaller tensors were used.
kernels::Rates calibrate(const device::RunDevice& device, train::Compute compute,
                         int64_t budget_bytes = kNoBudget);

// As it was measured before by this binary on this device; else it is measured now.
kernels::Rates rates_at_hand(const device::RunDevice& device, train::Compute compute,
                             int64_t budget_bytes = kNoBudget);

// Of what a device has, from the most exact on.
std::vector<train::Compute> computes_of(const device::Target& target);

}  // namespace sotto::plan
