// The tables of a comparison, and its text report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sotto/lab/comparison.h"
#include "sotto/report/data_table.h"

namespace sotto::lab {

// Names and values that all experiments share: device, batch, network.
std::vector<std::pair<std::string, std::string>> set_up_of(const Comparison& comparison);

// Returns the devices of the completed experiments.
std::string devices_of(const Comparison& comparison);

// Tables for the terminal and for reports, by the kind of the suite; notes come last.
std::vector<report::DataTable> tables_of(const Comparison& comparison);

// The text of comparison_report.txt.
std::string comparison_report(const Comparison& comparison);

}  // namespace sotto::lab
