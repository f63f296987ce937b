// What libraries take on a GPU besides the arena: its context, the code of kernels, the handles and
// workspaces of cuBLAS. None of it can be asked for; it is measured, after a step has touched every
// kernel that the run will use.
#pragma once

#include <cstdint>
#include <optional>

#include "sotto/device/run_device.h"
#include "sotto/train/run_config.h"
#include "sotto/train/step_budget.h"

namespace sotto::train {

// Runs one update of the run's own network, cut down to one layer, outside of any arena, and
// returns what the process holds afterwards, with a little to spare for kernels that other shapes
// will load. 0 on the CPU.
int64_t measure_library_constant(const RunConfig& config, const models::DataShape& shape,
                                 const device::RunDevice& device);

// Puts the run's arithmetic in force and divides its budget between what libraries take on the
// device and the arena; the host's part is left as it is. Throws Infeasible where the device does
// not have the arithmetic, or nothing is left for the arena.
StepBudget divide_budget(const RunConfig& config, const models::DataShape& shape,
                         const device::RunDevice& device, int64_t budget_bytes);

// The same number as it was measured before by this binary, on this card with this driver: for
// plans that do not touch the card.
std::optional<int64_t> find_library_constant(const device::RunDevice& device, Compute compute);

}  // namespace sotto::train
