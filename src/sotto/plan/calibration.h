// How fast the device at hand is: a handful of products, attention, passes over memory, tiny
// kernels and copies, each measured with the kernels that training uses. Takes a few seconds; what
// was measured is kept for the same device and binary.
#pragma once

#include <vector>

#include "sotto/device/run_device.h"
#include "sotto/kernels/cost.h"
#include "sotto/train/numerics.h"

namespace sotto::plan {

// Puts the arithmetic in force.
kernels::Rates measure_rates(const device::RunDevice& device, train::Compute compute);

// The same, and kept for the same device and binary.
kernels::Rates calibrate(const device::RunDevice& device, train::Compute compute);

// As it was measured before by this binary on this device; else it is measured now.
kernels::Rates rates_at_hand(const device::RunDevice& device, train::Compute compute);

// Of what a device has, from the most exact on.
std::vector<train::Compute> computes_of(const device::Target& target);

}  // namespace sotto::plan
