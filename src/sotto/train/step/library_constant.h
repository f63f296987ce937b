// What libraries take on a GPU besides the arena: its context, the code of kernels, the handles and
// workspaces of cuBLAS. None of it can be asked for; it is measured, after a step has touched every
// kernel that the run will use.
#pragma once

#include <cstdint>
#include <optional>

#include "sotto/device/run_device.h"
#include "sotto/train/step/run_config.h"
#include "sotto/train/step/step_budget.h"

namespace sotto::train {

// Bytes that measurements before a run may take on a GPU under a budget: without what the process
// holds there already and a reserve for code that is loaded meanwhile. At most 0 where nothing is
// left.
int64_t room_for_trials(const device::RunDevice& device, int64_t budget_bytes);

// Makes cuBLAS allocate what it keeps to work in, which comes with the first product of a kind, and
// which would keep an arena that it lies in alive.
void allocate_blas_workspaces(const device::RunDevice& device, Compute compute);

// Runs updates of the run's own network, cut down to one layer, of several sizes, inside the
// budget, and returns what the process holds afterwards, with a reserve for code that other shapes
// will load. 0 on the CPU. Throws Infeasible where the smallest update has no room.
int64_t measure_library_constant(const RunConfig& config, const models::DataShape& shape,
                                 const device::RunDevice& device, int64_t budget_bytes);

// Tells what libraries held at the end of a run. Where it is more than was measured before the run,
// later runs reserve it.
void note_library_use(const device::RunDevice& device, Compute compute, int64_t bytes);

// Puts the run's arithmetic in force, measures what libraries take on the device, and divides the
// budget. Throws Infeasible where the device does not have the arithmetic, or nothing is left for
// the arena; ConfigError where host_memory could not take effect.
StepBudget take_budget(const RunConfig& config, const models::DataShape& shape,
                       const device::RunDevice& device, int64_t budget_bytes);

// The same number as it was measured before by this binary, on this card with this driver: for
// plans that do not touch the card.
std::optional<int64_t> find_library_constant(const device::RunDevice& device, Compute compute);

}  // namespace sotto::train
