// The tables of a comparison, and its text report.
#pragma once

#include <string>
#include <vector>

#include "sotto/lab/comparison.h"
#include "sotto/report/table.h"

namespace sotto::lab {

struct NamedTable {
  std::string title;
  report::Table table;
};

// Tables for the terminal and for reports, by the kind of the suite; notes come last.
std::vector<NamedTable> tables_of(const Comparison& comparison);

// The text of comparison_report.txt.
std::string comparison_report(const Comparison& comparison);

}  // namespace sotto::lab
