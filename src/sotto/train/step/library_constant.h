// Memory that libraries take on a GPU outside the arena: the context, kernel code, and the handles
// and workspaces of cuBLAS. It cannot be queried; it is measured after a step has used every kernel
// of the run.
#pragma once

#include <cstdint>
#include <optional>

#include "sotto/device/run_device.h"
#include "sotto/train/step/run_config.h"
#include "sotto/train/step/step_budget.h"

namespace sotto::train {

// Returns the bytes that measurements before a run may take on a GPU within a budget: excludes what
// the process already holds there and a reserve for code loaded meanwhile. At most 0 where nothing
// is left.
int64_t room_for_trials(const device::RunDevice& device, int64_t budget_bytes);

// Makes cuBLAS allocate its workspaces, which it does with the first product of a kind; allocated
// later inside an arena, they would keep that arena alive.
void allocate_blas_workspaces(const device::RunDevice& device, Compute compute);

// Runs updates of several sizes with the run's own network, reduced to one layer, within the
// budget, and returns what the process holds afterwards plus a reserve for code that other shapes
// will load. 0 on the CPU. Throws Infeasible where the smallest update does not fit.
int64_t measure_library_constant(const RunConfig& config, const models::DataShape& shape,
                                 const device::RunDevice& device, int64_t budget_bytes);

// Records what libraries held at the end of a run. Where it exceeds the measurement before the run,
// later runs reserve it.
void note_library_use(const device::RunDevice& device, Compute compute, int64_t bytes);

// Applies the run's arithmetic, measures the memory of libraries on the device, and divides the
// budget. Throws Infeasible where the device does not support the arithmetic, or nothing is left
// for the arena; ConfigError where host_memory would have no effect.
StepBudget take_budget(const RunConfig& config, const models::DataShape& shape,
                       const device::RunDevice& device, int64_t budget_bytes);

// Returns the constant measured earlier by this binary on this card with this driver, for plans
// that do not use the card.
std::optional<int64_t> find_library_constant(const device::RunDevice& device, Compute compute);

}  // namespace sotto::train
