// How fast the device at hand is: a handful of products, attention, passes over memory, tiny
// kernels and copies, each measured with the kernels that training uses. Takes a few seconds; what
// was measured is kept for the same device and binary.
#pragma once

#include "sotto/device/run_device.h"
#include "sotto/kernels/cost.h"
#include "sotto/train/numerics.h"

namespace sotto::plan {

// The arithmetic must be in force: train::apply_arithmetic().
kernels::Rates measure_rates(const device::RunDevice& device, train::Compute compute);

// The same, as it was measured before by this binary on this device.
kernels::Rates rates_at_hand(const device::RunDevice& device, train::Compute compute);

}  // namespace sotto::plan
