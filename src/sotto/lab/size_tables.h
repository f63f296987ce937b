// The tables of a suite of sizes.
#pragma once

#include <vector>

#include "sotto/lab/comparison.h"
#include "sotto/report/data_table.h"

namespace sotto::lab {

// Returns tables of the networks in their smallest budgets, by micro-batch, by budget, and of the
// settings that were chosen where no budget was given. Those without a row are empty.
std::vector<report::DataTable> size_tables(const Comparison& comparison);

}  // namespace sotto::lab
