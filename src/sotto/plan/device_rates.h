// Speed of cards in the device table, for plans without access to the card: published rates, and
// the fraction of them that kernels reach.
#pragma once

#include "sotto/device/device_table.h"
#include "sotto/kernels/base/cost.h"
#include "sotto/train/step/numerics.h"

namespace sotto::plan {

kernels::Rates rates_of(const device::KnownDevice& device, train::Compute compute);

}  // namespace sotto::plan
