// How fast cards of the device table are, for plans without the card: what the maker publishes, and
// the share of it that kernels reach.
#pragma once

#include "sotto/device/device_table.h"
#include "sotto/kernels/base/cost.h"
#include "sotto/train/step/numerics.h"

namespace sotto::plan {

kernels::Rates rates_of(const device::KnownDevice& device, train::Compute compute);

}  // namespace sotto::plan
